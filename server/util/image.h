/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_H
#define IMAGE_H

/*
 * The bytes of a loaded program: a client's sealed memfd, mapped for reading.
 * Clients that load equal bytes share one mapping. Any thread.
 */

#include <stdatomic.h>

#include "account.h"

struct image {
	const void *data;
	size_t size;
	struct image_linked *linked; /* of an image of several parts; else NULL */
	uint64_t hash;
	int fd;                  /* of the file, owned; -1: the process could have no more */
	atomic_uint abilities;   /* the result of image_abilities() */
	atomic_uint has_managed; /* the result of managed_come_first() */
	atomic_bool is_plain;    /* placement_get() has found no variables in it */
	uint32_t n_refs;         /* under the list's lock */
	struct image *next;      /* the list of all images */
};

/*
 * Maps `fd', or finds the image that has the same bytes already. `account' pays for what a
 * new image keeps. The caller keeps `fd' and owns a reference. -EBADMSG: the file is not
 * sealed, has another size or holes (which are not paid for), or holds nothing that the
 * driver can load (the driver believes the sizes in it). Behind a fatbin there may be
 * others, from which it was linked.
 */
int image_get(struct account *account, int fd, size_t size, struct image **ret_image);

/* What the driver gets. */
const void *image_code(const struct image *image);

/*
 * The fatbins from which the image was linked, by number. NULL: there are no more, or it was
 * not linked.
 */
const void *image_part(const struct image *image, unsigned i, size_t *ret_size);

/* Another reference. */
struct image *image_ref(struct image *image);

/* NULL is fine. */
void image_unref(struct image *image);

/* The number of images in memory, for tests. */
unsigned images_count(void);

#endif
