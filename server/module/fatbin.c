/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The fatbin reader. Runs on the thread that loads a module.
 *
 * Invariant: no byte of the image is used before a check that it lies within the image.
 */

#include "fatbin.h"

#include <lz4.h>
#include <string.h>
#include <zstd.h>

#include "base.h"

#define FATBIN_MAGIC 0xba55ed50u
#define FATBIN_HEADER_MIN 16u
#define FATBIN_ENTRY_MIN 64u

/* The most that an entry may unpack to: well above any PTX, well below the machine's memory. */
#define FATBIN_TEXT_MAX (1ull << 30)

/* The most that is unpacked only to search for a word: the sender does not pay for it. */
#define FATBIN_LOOK_MAX (64ull << 20)

enum fatbin_kind {
	FATBIN_PTX = 1,
	FATBIN_ELF = 2,
};

enum fatbin_flags {
	FATBIN_LZ4 = 0x2000,
	FATBIN_ZSTD = 0x8000,
};

struct fatbin_entry {
	uint16_t kind;
	uint32_t arch;
	uint64_t flags;
	const uint8_t *payload; /* in the image */
	uint64_t payload_size;  /* without the padding, if the entry says that */
	uint64_t unpacked_size;
};

static uint64_t read_le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

int fatbin_is(const void *image, size_t size)
{
	return size >= FATBIN_HEADER_MIN && read_le(image, 4) == FATBIN_MAGIC;
}

/* A walk over the entries of a fatbin. */
struct walk {
	const uint8_t *body;
	uint64_t size, next; /* of the body; offset of the next entry */
};

static int walk_begin(struct walk *walk, const void *image, size_t size)
{
	const uint8_t *p = image;
	uint64_t header, body_size;

	if (!fatbin_is(image, size))
		return -EBADMSG;
	header = read_le(p + 6, 2);
	body_size = read_le(p + 8, 8);
	if (header < FATBIN_HEADER_MIN || header > size || !range_ok(header, body_size, size))
		return -EBADMSG;
	*walk = (struct walk){.body = p + header, .size = body_size};
	return 0;
}

/* 1: another entry; 0: no more; -EBADMSG. */
static int walk_next(struct walk *walk, struct fatbin_entry *ret_entry)
{
	const uint8_t *p = walk->body + walk->next;
	uint64_t header, size, packed;

	if (walk->next >= walk->size)
		return 0;
	if (!range_ok(walk->next, FATBIN_ENTRY_MIN, walk->size))
		return -EBADMSG;
	header = read_le(p + 4, 4);
	size = read_le(p + 8, 8);
	packed = read_le(p + 16, 4);
	if (header < FATBIN_ENTRY_MIN || !range_ok(walk->next, header, walk->size) ||
		!range_ok(walk->next + header, size, walk->size))
		return -EBADMSG;
	*ret_entry = (struct fatbin_entry){
		.kind = (uint16_t)read_le(p, 2),
		.arch = (uint32_t)read_le(p + 28, 4),
		.flags = read_le(p + 40, 8),
		.payload = p + header,
		.payload_size = packed ? packed : size,
		.unpacked_size = read_le(p + 56, 8),
	};
	if (ret_entry->payload_size > size)
		return -EBADMSG;
	walk->next += header + size;
	return 1;
}

static int entry_inflate(const struct fatbin_entry *entry, char *text)
{
	if (entry->flags & FATBIN_ZSTD) {
		size_t n = ZSTD_decompress(
			text, entry->unpacked_size, entry->payload, entry->payload_size);

		return ZSTD_isError(n) || n != entry->unpacked_size ? -EBADMSG : 0;
	}
	if (entry->payload_size > INT32_MAX)
		return -EBADMSG;
	if (LZ4_decompress_safe((const char *)entry->payload, text, (int)entry->payload_size,
		    (int)entry->unpacked_size) != (int)entry->unpacked_size)
		return -EBADMSG;
	return 0;
}

/* The size that the entry gives. If there are more bytes, unpacking fails. */
static uint64_t entry_size(const struct fatbin_entry *entry)
{
	return entry->flags & (FATBIN_LZ4 | FATBIN_ZSTD) ? entry->unpacked_size
							 : entry->payload_size;
}

static int entry_unpack(const struct fatbin_entry *entry, char **ret_text, size_t *ret_len)
{
	bool packed = entry->flags & (FATBIN_LZ4 | FATBIN_ZSTD);
	uint64_t len = entry_size(entry);
	_cleanup_free_ char *text = NULL;
	int r;

	if (len > FATBIN_TEXT_MAX)
		return -EBADMSG;
	text = malloc(len + 1);
	if (!text)
		return -ENOMEM;
	if (packed) {
		r = entry_inflate(entry, text);
		if (r < 0)
			return r; /* NOLINT(clang-analyzer-unix.Malloc): the cleanup frees it */
	} else {
		memcpy(text, entry->payload, len);
	}
	text[len] = '\0';
	*ret_len = len;
	*ret_text = TAKE_PTR(text);
	return 0;
}

/* What a walk over the entries has found. */
struct fatbin_choice {
	struct fatbin_entry best;  /* the highest PTX that the GPU can compile */
	struct fatbin_entry above; /* the lowest PTX that it cannot */
	struct fatbin_entry cubin; /* the highest machine code that it can run */
	bool has_machine_code;
};

static void choice_add(
	struct fatbin_choice *choice, const struct fatbin_entry *entry, uint32_t max_arch)
{
	if (entry->kind == FATBIN_ELF && entry->arch <= max_arch) {
		choice->has_machine_code = true;
		/* A higher minor number is the same machine with more features. */
		if (entry->arch / 10 == max_arch / 10 && entry->arch > choice->cubin.arch)
			choice->cubin = *entry;
	}
	if (entry->kind != FATBIN_PTX)
		return;
	if (entry->arch > max_arch) {
		if (!choice->above.payload || entry->arch < choice->above.arch)
			choice->above = *entry;
	} else if (!choice->best.payload || entry->arch > choice->best.arch) {
		choice->best = *entry;
	}
}

static int find_choice(
	const void *image, size_t size, uint32_t max_arch, struct fatbin_choice *choice)
{
	struct fatbin_entry entry;
	struct walk walk;
	int r = walk_begin(&walk, image, size);

	if (r < 0)
		return r;
	while ((r = walk_next(&walk, &entry)) > 0)
		choice_add(choice, &entry, max_arch);
	return r;
}

int fatbin_find_cubin(
	const void *image, size_t size, uint32_t arch, char **ret_bytes, size_t *ret_size)
{
	struct fatbin_choice choice = {0};
	int r = find_choice(image, size, arch, &choice);

	if (r < 0)
		return r;
	if (!choice.cubin.payload)
		return -ENOEXEC;
	if (choice.cubin.unpacked_size > FATBIN_LOOK_MAX ||
		choice.cubin.payload_size > FATBIN_LOOK_MAX)
		return -EFBIG;
	return entry_unpack(&choice.cubin, ret_bytes, ret_size);
}

int fatbin_find_ptx(
	const void *image, size_t size, uint32_t max_arch, char **ret_text, size_t *ret_len)
{
	struct fatbin_choice choice = {0};
	const struct fatbin_entry *chosen;
	int r = find_choice(image, size, max_arch, &choice);

	if (r < 0)
		return r;
	chosen = choice.best.payload ? &choice.best : &choice.above;
	if (!chosen->payload || (chosen == &choice.above && !choice.has_machine_code))
		return -ENOEXEC;
	r = entry_unpack(chosen, ret_text, ret_len);
	if (r == 0)
		*ret_len = strlen(*ret_text);
	return r;
}

void fatbin_largest(const void *image, size_t size, uint64_t *ret_code, uint64_t *ret_text)
{
	struct fatbin_entry entry;
	struct walk walk;

	*ret_code = *ret_text = 0;
	if (walk_begin(&walk, image, size) < 0)
		return;
	while (walk_next(&walk, &entry) > 0) {
		uint64_t *largest = entry.kind == FATBIN_ELF ? ret_code : ret_text;

		*largest = MAX(*largest, entry_size(&entry));
	}
}

/* Searches the bytes in place if they are not packed. */
static int entry_mentions(const struct fatbin_entry *entry, const char *word)
{
	char *unpacked;
	size_t len;
	int r;

	if (!(entry->flags & (FATBIN_LZ4 | FATBIN_ZSTD)))
		return memmem(entry->payload, entry->payload_size, word, strlen(word)) != NULL;
	if (entry->unpacked_size > FATBIN_LOOK_MAX)
		return -EFBIG;
	r = entry_unpack(entry, &unpacked, &len);
	if (r < 0)
		return r;
	r = memmem(unpacked, len, word, strlen(word)) != NULL;
	free(unpacked);
	return r;
}

int fatbin_mentions(const void *image, size_t size, const char *word)
{
	struct fatbin_entry entry;
	struct walk walk;
	int r, unread = 0;

	if (!fatbin_is(image, size))
		return memmem(image, size, word, strlen(word)) != NULL;
	r = walk_begin(&walk, image, size);
	if (r < 0)
		return r;
	while ((r = walk_next(&walk, &entry)) > 0) {
		r = entry_mentions(&entry, word);
		if (r > 0)
			return r;
		if (r < 0)
			unread = r;
	}
	return r < 0 ? r : unread;
}
