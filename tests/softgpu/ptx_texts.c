/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Texts out of images, and images out of texts. Runs on the thread that loads
 * or links. No byte of an image is used before it was found to lie within it.
 */

#include "ptx_texts.h"

#include <elf.h>
#include <string.h>

#include "base.h"
#include "fatbin.h"
#include "ptx_parse.h"

#define SECTION ".nv.texts"

/* The architecture that the software GPU says it has. */
#define ARCH_MAX 90u

/* The names of the sections, of which the first is none. */
static const char names[] = "\0" SECTION "\0.shstrtab";

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
	char *text = NULL;
	size_t len;
	int r = fatbin_find_ptx(image, size, ARCH_MAX, &text, &len);

	if (r == -ENOEXEC)
		return ptx_log_fail(log, r, 0, "no PTX for sm_%u or lower in the fatbin", ARCH_MAX);
	if (r < 0 && r != -ENOMEM)
		return ptx_log_fail(log, -EINVAL, 0, "malformed fatbin");
	if (r == 0)
		r = put_text(texts, text);
	return r < 0 ? ptx_log_fail(log, r, 0, "out of memory") : 0;
}

/* The bytes of the section with the texts; false if the file has none. */
static bool find_section(const uint8_t *image, size_t size, const char **ret_at, size_t *ret_size)
{
	Elf64_Ehdr head;
	Elf64_Shdr section, strings;

	if (size < sizeof(head))
		return false;
	memcpy(&head, image, sizeof(head));
	if (head.e_machine != EM_CUDA || head.e_shentsize != sizeof(section) ||
		!range_ok(head.e_shoff, (uint64_t)head.e_shnum * sizeof(section), size) ||
		head.e_shstrndx >= head.e_shnum)
		return false;
	memcpy(&strings, image + head.e_shoff + head.e_shstrndx * sizeof(section), sizeof(strings));
	if (!range_ok(strings.sh_offset, strings.sh_size, size))
		return false;
	for (unsigned i = 0; i < head.e_shnum; i++) {
		memcpy(&section, image + head.e_shoff + i * sizeof(section), sizeof(section));
		if (!range_ok(section.sh_name, sizeof(SECTION), strings.sh_size) ||
			memcmp(image + strings.sh_offset + section.sh_name, SECTION,
				sizeof(SECTION)) != 0)
			continue;
		*ret_at = (const char *)image + section.sh_offset;
		*ret_size = section.sh_size;
		return range_ok(section.sh_offset, section.sh_size, size);
	}
	return false;
}

static int add_linked(struct ptx_texts *texts, const void *image, size_t size, struct ptx_log *log)
{
	const char *at;

	if (!find_section(image, size, &at, &size))
		return ptx_log_fail(log, -ENOEXEC, 0, "a cubin without PTX");
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
	if (fatbin_is(image, size))
		return add_fatbin(texts, image, size, log);
	if (size >= SELFMAG && !memcmp(image, ELFMAG, SELFMAG))
		return add_linked(texts, image, size, log);
	return put_text(texts, strndup(image, size)) < 0
		       ? ptx_log_fail(log, -ENOMEM, 0, "out of memory")
		       : 0;
}

static void fill_heads(uint8_t *image, size_t texts_size)
{
	size_t strings_at = sizeof(Elf64_Ehdr) + texts_size;
	Elf64_Ehdr head = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_CUDA,
		.e_version = EV_CURRENT,
		.e_flags = ARCH_MAX,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 2,
	};
	Elf64_Shdr sections[3] = {
		{.sh_type = SHT_NULL},
		{.sh_name = 1,
			.sh_type = SHT_PROGBITS,
			.sh_offset = sizeof(head),
			.sh_size = texts_size},
		{.sh_name = 1 + sizeof(SECTION),
			.sh_type = SHT_STRTAB,
			.sh_offset = strings_at,
			.sh_size = sizeof(names)},
	};

	head.e_shoff = ALIGN_UP(strings_at + sizeof(names), (size_t)8);
	memcpy(image, &head, sizeof(head));
	memcpy(image + strings_at, names, sizeof(names));
	memcpy(image + head.e_shoff, sections, sizeof(sections));
}

int ptx_texts_link(const struct ptx_texts *texts, void **ret_image, size_t *ret_size)
{
	size_t texts_size = 0, size, at = sizeof(Elf64_Ehdr);
	uint8_t *image;

	for (size_t i = 0; i < texts->n; i++)
		texts_size += strlen(texts->texts[i]) + 1;
	size = ALIGN_UP(at + texts_size + sizeof(names), (size_t)8) + 3 * sizeof(Elf64_Shdr);
	image = calloc(1, size);
	if (!image)
		return -ENOMEM;
	for (size_t i = 0; i < texts->n; i++) {
		size_t len = strlen(texts->texts[i]) + 1;

		memcpy(image + at, texts->texts[i], len);
		at += len;
	}
	fill_heads(image, texts_size);
	*ret_image = image;
	*ret_size = size;
	return 0;
}

void ptx_texts_fini(struct ptx_texts *texts)
{
	for (size_t i = 0; i < texts->n; i++)
		free(texts->texts[i]);
	free(texts->texts);
	*texts = (struct ptx_texts){0};
}
