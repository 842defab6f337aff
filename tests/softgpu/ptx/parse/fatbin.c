/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The PTX of a fatbin. Runs on the thread that loads or links.
 *
 * Invariant: every `struct rest' lies within the image; only bytes of the image are read.
 */

#include "fatbin.h"

#include <lz4.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "base.h"

#define MAGIC 0xba55ed50u
#define TEXT_MAX ((uint64_t)1 << 30) /* PTX is shorter */

enum {
	KIND_PTX = 1,
	KIND_MACHINE_CODE = 2,
	KIND_LTO = 8, /* code for the linker's optimizer */
};

enum {
	FLAG_LZ4 = 0x2000,
	FLAG_ZSTD = 0x8000,
};

/* The layout of nvcc: little endian, without padding. A header may be longer than this. */
struct file_header {
	uint32_t magic;
	uint16_t version;
	uint16_t header_size;
	uint64_t size; /* of the entries */
};
_Static_assert(sizeof(struct file_header) == 16, "no padding");

struct entry_header {
	uint16_t kind;
	uint16_t version;
	uint32_t header_size;
	uint64_t size;        /* of the data after the header */
	uint32_t packed_size; /* of that, without padding; 0: all of it */
	uint32_t unused[2];
	uint32_t arch;
	uint64_t unused_too;
	uint64_t flags;
	uint64_t unused_either;
	uint64_t unpacked_size;
};
_Static_assert(sizeof(struct entry_header) == 64, "no padding");

struct entry {
	struct entry_header header;
	const char *bytes; /* NULL: no entry */
};

struct rest {
	const char *at;
	uint64_t size;
};

/* NULL: too few bytes are left. */
static const char *take(struct rest *rest, uint64_t size)
{
	const char *bytes = rest->at;

	if (size > rest->size)
		return NULL;
	rest->at += size;
	rest->size -= size;
	return bytes;
}

static bool peek(const struct rest *rest, void *header, size_t size)
{
	if (size > rest->size)
		return false;
	memcpy(header, rest->at, size);
	return true;
}

bool ptx_fatbin_is(const void *image, size_t size)
{
	const uint32_t magic = MAGIC;

	return size >= sizeof(struct file_header) && !memcmp(image, &magic, sizeof(magic));
}

static bool take_entry(struct rest *rest, struct entry *ret_entry)
{
	struct entry_header *header = &ret_entry->header;

	if (!peek(rest, header, sizeof(*header)) || header->header_size < sizeof(*header) ||
		!take(rest, header->header_size))
		return false;
	ret_entry->bytes = take(rest, header->size);
	return ret_entry->bytes && header->packed_size <= header->size;
}

/* Whether the entry is better than the one chosen so far. */
static bool is_better(const struct entry *chosen, const struct entry *entry, uint32_t arch)
{
	uint32_t old = chosen->header.arch, new = entry->header.arch;

	if (!chosen->bytes)
		return true;
	if (new > arch)
		return old > arch && new < old;
	return old > arch || new > old;
}

static int choose(struct rest rest, uint32_t arch, struct entry *ret_chosen)
{
	bool has_machine_code = false;
	struct entry chosen = {0}, entry;

	while (rest.size > 0) {
		if (!take_entry(&rest, &entry))
			return -EBADMSG;
		if (entry.header.kind == KIND_MACHINE_CODE && entry.header.arch <= arch)
			has_machine_code = true;
		if (entry.header.kind == KIND_PTX && is_better(&chosen, &entry, arch))
			chosen = entry;
	}
	if (!chosen.bytes || (chosen.header.arch > arch && !has_machine_code))
		return -ENOEXEC;
	*ret_chosen = chosen;
	return 0;
}

static bool unpack(const struct entry *entry, uint64_t size, char *text, uint64_t text_size)
{
	if (entry->header.flags & FLAG_ZSTD)
		return ZSTD_decompress(text, text_size, entry->bytes, size) == text_size;
	if (entry->header.flags & FLAG_LZ4)
		return size <= INT32_MAX && LZ4_decompress_safe(entry->bytes, text, (int)size,
						    (int)text_size) == (int)text_size;
	memcpy(text, entry->bytes, text_size);
	return true;
}

/* The part of the image with the entries. */
static bool entries_of(const void *image, size_t size, struct rest *ret_rest)
{
	struct rest rest = {image, size};
	struct file_header file;

	if (!ptx_fatbin_is(image, size) || !peek(&rest, &file, sizeof(file)) ||
		file.header_size < sizeof(file) || !take(&rest, file.header_size) ||
		file.size > rest.size)
		return false;
	*ret_rest = (struct rest){rest.at, file.size};
	return true;
}

int ptx_fatbin_text(const void *image, size_t size, uint32_t arch, char **ret_text)
{
	uint64_t packed_size, text_size;
	struct entry entry;
	struct rest rest;
	char *text;
	int r;

	if (!entries_of(image, size, &rest))
		return -EBADMSG;
	r = choose(rest, arch, &entry);
	if (r < 0)
		return r;
	packed_size = entry.header.packed_size ? entry.header.packed_size : entry.header.size;
	text_size = entry.header.flags & (FLAG_ZSTD | FLAG_LZ4) ? entry.header.unpacked_size
								: packed_size;
	if (text_size > TEXT_MAX)
		return -EBADMSG;
	text = calloc(1, text_size + 1);
	if (!text)
		return -ENOMEM;
	if (!unpack(&entry, packed_size, text, text_size)) {
		free(text);
		return -EBADMSG;
	}
	*ret_text = text;
	return 0;
}

static const char *name_of(uint16_t kind)
{
	switch (kind) {
	case KIND_PTX:
		return "PTX";
	case KIND_MACHINE_CODE:
		return "machine code";
	case KIND_LTO:
		return "LTO code";
	default:
		return "unknown code";
	}
}

void ptx_fatbin_describe(const void *image, size_t size, char *text, size_t text_size)
{
	struct entry entry;
	struct rest rest;
	size_t len = 0;

	snprintf(text, text_size, "nothing");
	if (!entries_of(image, size, &rest))
		return;
	while (rest.size > 0 && take_entry(&rest, &entry) && len < text_size) {
		len += (size_t)snprintf(text + len, text_size - len, "%ssm_%u %s",
			len > 0 ? ", " : "", entry.header.arch, name_of(entry.header.kind));
	}
}
