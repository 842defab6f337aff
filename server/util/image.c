/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Images by content. Any thread.
 *
 * Invariant: the bytes of an image never change. They are sealed against the client too, so
 * the driver reads what was checked and hashed.
 */

#include "image.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "bounds.h"
#include "lock.h"
#include "shm.h"

#define FATBIN_MAGIC 0xba55ed50u
#define TMPFS 0x01021994

/*
 * The form in which nvcc passes a linked image to the driver, which may link it again from
 * its parts.
 */
#define WRAPPER_MAGIC 0x466243b1u
#define WRAPPER_LINKED 2u

struct image_linked {
	uint32_t magic;
	uint32_t version;
	const void *data;
	const void *const *list; /* parts */
	const void *parts[];     /* ends with NULL */
};

/* The head of a fatbin. Its size counts what follows the head. */
struct fatbin_head {
	uint32_t magic;
	uint16_t version;
	uint16_t head_size;
	uint64_t size;
};

static struct lock lock = LOCK_INIT(IMAGES);
static struct image *images;

static bool elf_ok(const void *data, size_t size)
{
	Elf64_Ehdr head;

	if (size < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	return head.e_ident[EI_CLASS] == ELFCLASS64 &&
	       range_ok(head.e_shoff, (uint64_t)head.e_shnum * head.e_shentsize, size) &&
	       range_ok(head.e_phoff, (uint64_t)head.e_phnum * head.e_phentsize, size);
}

/* The driver gets no size: it believes the outermost size in the bytes, or looks for a NUL. */
static bool shape_ok(const void *data, size_t size)
{
	struct fatbin_head head;

	if (size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0)
		return elf_ok(data, size);
	if (size >= sizeof(head)) {
		memcpy(&head, data, sizeof(head));
		if (head.magic == FATBIN_MAGIC)
			return range_ok(head.head_size, head.size, size);
	}
	return ((const char *)data)[size - 1] == 0;
}

/* The offset of the fatbin behind the one at `at'. 0: that one was the last. */
static size_t next_part(const uint8_t *data, size_t size, size_t at)
{
	struct fatbin_head head;

	memcpy(&head, data + at, sizeof(head));
	at = ALIGN_UP(at + head.head_size + head.size, (size_t)IMAGE_PART_ALIGN);
	if (!range_ok(at, sizeof(head), size))
		return 0;
	memcpy(&head, data + at, sizeof(head));
	return head.magic == FATBIN_MAGIC ? at : 0;
}

/*
 * Finds the fatbins behind the first one; the shape of the bytes is checked. 0, -EBADMSG or
 * -ENOMEM. An image without further fatbins is fine.
 */
static int find_parts(
	struct account *account, const uint8_t *data, size_t size, struct image_linked **ret_linked)
{
	_cleanup_account_ struct image_linked *linked = NULL;
	size_t n = 0, at = 0;
	uint32_t magic = 0;

	memcpy(&magic, data, MIN(size, sizeof(magic)));
	*ret_linked = NULL;
	if (magic != FATBIN_MAGIC || size < sizeof(struct fatbin_head))
		return 0;
	while ((at = next_part(data, size, at))) {
		if (++n > IMAGE_PARTS_MAX || !shape_ok(data + at, size - at))
			return -EBADMSG;
	}
	if (n == 0)
		return 0;
	linked = account_alloc(account, sizeof(*linked) + (n + 1) * sizeof(linked->parts[0]), 0);
	if (!linked)
		return -ENOMEM;
	linked->magic = WRAPPER_MAGIC;
	linked->version = WRAPPER_LINKED;
	linked->data = data;
	linked->list = linked->parts;
	n = 0;
	while ((at = next_part(data, size, at)))
		linked->parts[n++] = data + at;
	*ret_linked = TAKE_PTR(linked);
	return 0;
}

/*
 * Checks that the client has paid for all of the memory. Otherwise, reading a hole would
 * allocate for this process, and a hole in huge pages may raise SIGBUS. The file has seals,
 * so it is a memfd and its file system answers at once.
 */
static int check_backing(int fd, size_t size)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (fs.f_type != TMPFS || (uint64_t)st.st_blocks * 512 < size)
		return -EBADMSG;
	return 0;
}

static uint64_t hash_bytes(const uint8_t *data, size_t size)
{
	const uint64_t prime = 0x9e3779b97f4a7c15ull;
	uint64_t hash = size * prime, word;

	for (; size >= 8; size -= 8, data += 8) {
		memcpy(&word, data, 8);
		hash = (hash ^ word) * prime;
		hash ^= hash >> 29;
	}
	word = 0;
	memcpy(&word, data, size);
	hash = (hash ^ word) * prime;
	return hash ^ hash >> 32;
}

/* A candidate with a reference, or NULL. `after' is the result of the previous call, or NULL. */
static struct image *find_next(const struct image *like, struct image *after)
{
	lock_hold(&lock);
	struct image *image;

	for (image = after ? after->next : images; image; image = image->next)
		if (image->size == like->size && image->hash == like->hash)
			break;
	if (image)
		image->n_refs++;
	return image;
}

static void image_add(struct image *image)
{
	lock_hold(&lock);

	image->n_refs = 1;
	LIST_PUSH(images, image);
}

/* Compares outside the lock, because images have megabytes. */
static struct image *find_equal(const struct image *like)
{
	struct image *image = find_next(like, NULL);

	while (image && memcmp(image->data, like->data, like->size) != 0) {
		struct image *next = find_next(like, image);

		image_unref(image);
		image = next;
	}
	return image;
}

static void image_free(struct image *image)
{
	munmap((void *)(uintptr_t)image->data, image->size);
	closep(&image->fd);
	account_give(image, RESOURCE_MAPPINGS, 1);
	account_free(image->linked);
	account_free(image);
}

/* Takes the mapping, on failure too. */
static int image_new(
	struct account *account, int fd, void *data, size_t size, struct image **ret_image)
{
	struct image *image = account_alloc(account, sizeof(*image), 0);
	int r;

	if (!image || !account_take(image, RESOURCE_MAPPINGS, 1)) {
		munmap(data, size);
		account_free(image);
		return -ENOMEM;
	}
	image->data = data;
	image->size = size;
	image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	r = shape_ok(data, size) ? find_parts(account, data, size, &image->linked) : -EBADMSG;
	if (r < 0) {
		image_free(image);
		return r;
	}
	image->hash = hash_bytes(data, size);
	*ret_image = image;
	return 0;
}

const void *image_code(const struct image *image)
{
	return image->linked ? (const void *)image->linked : image->data;
}

const void *image_part(const struct image *image, unsigned i, size_t *ret_size)
{
	struct fatbin_head head;
	unsigned n = 0;

	while (image->linked && image->linked->parts[n] && n < i)
		n++;
	if (!image->linked || !image->linked->parts[n])
		return NULL;
	/* Its shape was checked. */
	memcpy(&head, image->linked->parts[n], sizeof(head));
	*ret_size = head.head_size + head.size;
	return image->linked->parts[n];
}

int image_get(struct account *account, int fd, size_t size, struct image **ret_image)
{
	struct image *image = NULL, *equal;
	void *data;
	int r;

	r = shm_map_image(fd, size, &data);
	if (r < 0)
		return r;
	r = check_backing(fd, size);
	if (r < 0) {
		munmap(data, size);
		return r;
	}
	r = image_new(account, fd, data, size, &image);
	if (r < 0)
		return r;
	equal = find_equal(image);
	if (equal)
		image_free(image);
	else
		image_add(image);
	*ret_image = equal ? equal : image;
	return 0;
}

struct image *image_ref(struct image *image)
{
	lock_hold(&lock);

	image->n_refs++;
	return image;
}

void image_unref(struct image *image)
{
	bool is_last;

	if (!image)
		return;
	lock_take(&lock);
	is_last = --image->n_refs == 0;
	if (is_last)
		LIST_DROP(images, image);
	lock_release(&lock);
	if (is_last)
		image_free(image);
}

unsigned images_count(void)
{
	lock_hold(&lock);
	unsigned n = 0;

	for (const struct image *image = images; image; image = image->next)
		n++;
	return n;
}
