/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The size of an image: a fatbin, its wrapper, an ELF file or PTX text; and the
 * parts of a linked image. Any thread. Reads the program's own memory.
 *
 * Invariant: sizes are computed only from the image's own headers.
 */

#include "image.h"

#include <elf.h>
#include <string.h>

#include "base.h"
#include "bounds.h"

#define WRAPPER_MAGIC 0x466243b1u
/* The code was linked from fatbins, which the driver can link again for another GPU. */
#define WRAPPER_LINKED 2u
#define FATBIN_MAGIC 0xba55ed50u

/* What nvcc writes into .nvFatBinSegment; later versions append fields. */
struct wrapper {
	uint32_t magic;
	uint32_t version;
	const void *data;
	const void *const *parts; /* for WRAPPER_LINKED: a list that ends with NULL */
};

struct fatbin_head {
	uint32_t magic;
	uint16_t version;
	uint16_t head_size;
	uint64_t body_size;
};

static size_t fatbin_size(const void *image)
{
	struct fatbin_head head;

	memcpy(&head, image, sizeof(head));
	return head.head_size + head.body_size;
}

static size_t elf_size(const uint8_t *image)
{
	Elf64_Ehdr head;
	size_t size;

	memcpy(&head, image, sizeof(head));
	size = MAX(head.e_phoff + (size_t)head.e_phnum * head.e_phentsize,
		head.e_shoff + (size_t)head.e_shnum * head.e_shentsize);
	for (unsigned i = 0; i < head.e_shnum; i++) {
		Elf64_Shdr section;

		memcpy(&section, image + head.e_shoff + (size_t)i * head.e_shentsize,
			sizeof(section));
		if (section.sh_type != SHT_NOBITS)
			size = MAX(size, section.sh_offset + section.sh_size);
	}
	return MAX(size, sizeof(head));
}

static bool image_is_ptx(const char *image)
{
	/* PTX begins with a directive, a comment or white space. */
	return *image == '.' || *image == '/' || *image == ' ' || *image == '\t' ||
	       *image == '\r' || *image == '\n';
}

int image_find(const void *image, const void **ret_data, size_t *ret_size)
{
	uint32_t magic = 0;

	/* A text may be shorter than a magic number. */
	if (image_is_ptx(image)) {
		*ret_data = image;
		*ret_size = strlen(image) + 1;
		return 0;
	}
	memcpy(&magic, image, sizeof(magic));
	if (magic == WRAPPER_MAGIC) {
		struct wrapper wrapper;

		memcpy(&wrapper, image, sizeof(wrapper));
		image = wrapper.data;
		if (!image)
			return -EBADMSG;
		memcpy(&magic, image, sizeof(magic));
	}
	if (magic == FATBIN_MAGIC)
		*ret_size = fatbin_size(image);
	else if (!memcmp(image, ELFMAG, SELFMAG))
		*ret_size = elf_size(image);
	else
		return -EBADMSG;
	*ret_data = image;
	return 0;
}

/* The list of parts; NULL: the image has no parts. */
static const void *const *find_parts(const void *image)
{
	struct wrapper wrapper;
	uint32_t magic;

	if (image_is_ptx(image))
		return NULL;
	memcpy(&magic, image, sizeof(magic));
	if (magic != WRAPPER_MAGIC)
		return NULL;
	memcpy(&wrapper, image, sizeof(wrapper));
	return wrapper.version == WRAPPER_LINKED && wrapper.parts && wrapper.parts[0]
		       ? wrapper.parts
		       : NULL;
}

/* Appends a fatbin. */
static int append_fatbin(uint8_t **bytes, size_t *size, const void *image)
{
	size_t at = ALIGN_UP(*size, (size_t)IMAGE_PART_ALIGN), more;
	const void *data;
	uint32_t magic;
	uint8_t *longer;

	if (image_find(image, &data, &more) < 0)
		return -EBADMSG;
	memcpy(&magic, data, MIN(more, sizeof(magic)));
	if (more < sizeof(struct fatbin_head) || magic != FATBIN_MAGIC)
		return -EBADMSG;
	longer = realloc(*bytes, at + more);
	if (!longer)
		return -ENOMEM;
	memset(longer + *size, 0, at - *size);
	memcpy(longer + at, data, more);
	*bytes = longer;
	*size = at + more;
	return 0;
}

int image_join(const void *image, void **ret_bytes, size_t *ret_size)
{
	const void *const *parts = find_parts(image);
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t size = 0;
	int r;

	*ret_bytes = NULL;
	if (!parts)
		return 0;
	r = append_fatbin(&bytes, &size, image);
	for (unsigned n = 1; r == 0 && *parts; parts++, n++)
		r = n < IMAGE_PARTS_MAX ? append_fatbin(&bytes, &size, *parts) : -EBADMSG;
	if (r < 0)
		return r; /* NOLINT(clang-analyzer-unix.Malloc): the cleanup frees it */
	*ret_bytes = TAKE_PTR(bytes);
	*ret_size = size;
	return 0;
}
