/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The PTX in an image. Runs on the thread that loads or links. A byte of an image is used only
 * after a check that it lies within the image.
 */

#include "texts.h"

#include <elf.h>
#include <string.h>

#include "base.h"
#include "fatbin.h"
#include "file.h"
#include "parse.h"

/* The architecture that the software GPU reports. */
#define ARCH_MAX 90u

/* Since this version of the ABI, the architecture is in the second byte of e_flags. */
#define ABI_WIDE_ARCH 8

/* Takes `text', on failure too. */
static int put_text(struct ptx_texts *texts, char *text)
{
	char **more = text ? reallocarray(texts->texts, texts->n + 1, sizeof(*more)) : NULL;

	if (!more) {
		free(text);
		return -ENOMEM;
	}
	texts->texts = more;
	texts->texts[texts->n++] = text;
	return 0;
}

static int add_fatbin(struct ptx_texts *texts, const void *image, size_t size, struct ptx_log *log)
{
	char *text = NULL, content[256];
	int r = ptx_fatbin_text(image, size, ARCH_MAX, &text);

	if (r == -ENOEXEC) {
		ptx_fatbin_describe(image, size, content, sizeof(content));
		return ptx_log_fail(log, r, 0,
			"the fatbin has %s; the software GPU runs PTX for sm_%u or lower only",
			content, ARCH_MAX);
	}
	if (r < 0 && r != -ENOMEM)
		return ptx_log_fail(log, -EINVAL, 0, "malformed fatbin");
	if (r == 0)
		r = put_text(texts, text);
	return r < 0 ? ptx_log_fail(log, r, 0, "out of memory") : 0;
}

/* Where a relocation of the file is resolved, that variable is placed. */
static int read_placed(struct ptx_texts *texts, const void *image, size_t size, struct ptx_log *log)
{
	const uint8_t *at;
	size_t n_bytes;

	if (!ptx_file_section(image, size, PTX_FILE_ADDRESSES, &at, &n_bytes) || n_bytes == 0)
		return 0;
	if (texts->placed)
		return ptx_log_fail(log, -EINVAL, 0, "addresses without a use");
	texts->placed = malloc(n_bytes);
	if (!texts->placed)
		return ptx_log_fail(log, -ENOMEM, 0, "out of memory");
	memcpy(texts->placed, at, n_bytes);
	texts->n_placed = n_bytes / sizeof(*texts->placed);
	for (size_t i = 0; i < texts->n_placed; i++)
		if (texts->placed[i])
			return 0;
	free(texts->placed);
	texts->placed = NULL;
	texts->n_placed = 0;
	return 0;
}

static int refuse_machine_code(const void *image, size_t size, struct ptx_log *log)
{
	Elf64_Ehdr head;

	if (size < sizeof(head))
		return ptx_log_fail(log, -ENOEXEC, 0, "a short cubin");
	memcpy(&head, image, sizeof(head));
	if (head.e_machine != EM_CUDA)
		return ptx_log_fail(log, -ENOEXEC, 0, "an ELF file that is no cubin");
	return ptx_log_fail(log, -ENOEXEC, 0, "sm_%u machine code; the software GPU runs PTX only",
		(head.e_ident[EI_ABIVERSION] >= ABI_WIDE_ARCH ? head.e_flags >> 8 : head.e_flags) &
			0xff);
}

static int add_linked(struct ptx_texts *texts, const void *image, size_t size, struct ptx_log *log)
{
	const size_t file_size = size;
	const uint8_t *section;
	size_t n_bytes;
	const char *at;
	int r = read_placed(texts, image, size, log);

	if (r < 0)
		return r;
	if (!ptx_file_section(image, size, PTX_FILE_TEXTS, &section, &size))
		return refuse_machine_code(image, size, log);
	texts->is_linked = true;
	at = (const char *)section;
	if (ptx_file_section(image, file_size, PTX_FILE_REGISTERS, &section, &n_bytes) &&
		n_bytes == sizeof(texts->max_regs))
		memcpy(&texts->max_regs, section, n_bytes);
	while (size > 0) {
		size_t len = strnlen(at, size);

		if (len == size)
			return ptx_log_fail(log, -EINVAL, 0, "a text without its end");
		if (put_text(texts, strdup(at)) < 0)
			return ptx_log_fail(log, -ENOMEM, 0, "out of memory");
		at += len + 1;
		size -= len + 1;
	}
	return 0;
}

int ptx_texts_add(struct ptx_texts *texts, const void *image, size_t size, struct ptx_log *log)
{
	if (ptx_fatbin_is(image, size))
		return add_fatbin(texts, image, size, log);
	if (size >= SELFMAG && !memcmp(image, ELFMAG, SELFMAG))
		return add_linked(texts, image, size, log);
	return put_text(texts, strndup(image, size)) < 0
		       ? ptx_log_fail(log, -ENOMEM, 0, "out of memory")
		       : 0;
}

void ptx_texts_fini(struct ptx_texts *texts)
{
	for (size_t i = 0; i < texts->n; i++)
		free(texts->texts[i]);
	free(texts->texts);
	free(texts->placed);
	*texts = (struct ptx_texts){0};
}
