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
	struct image_linked *linked; /* of several parts; else NULL */
	uint64_t hash;
	atomic_uint prints;      /* what image_prints() has found */
	atomic_uint has_managed; /* what managed_come_first() has */
	uint32_t n_refs;         /* under the list's lock */
	struct image *next;      /* the list of all */
};

/*
 * Maps `fd', or finds the image that has the same bytes already; what we keep of a new
 * one `account' pays. The caller keeps `fd' and owns a reference. -EBADMSG: not sealed, not of this
 * size, not paid for (holes), or nothing the driver loads (it believes its sizes). A fatbin may
 * have others behind it, from which it was linked.
 */
int image_get(struct account *account, int fd, size_t size, struct image **ret_image);

/* What the driver is given. */
const void *image_code(const struct image *image);

/* The fatbins that it was linked from, by number; NULL: no more, or it was not. */
const void *image_part(const struct image *image, unsigned i, size_t *ret_size);

/* NULL is fine. */
void image_unref(struct image *image);

/* Images in memory: for tests. */
unsigned images_count(void);

#endif
