/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PACK_H
#define PACK_H

/*
 * The state of a session on its way to another server: bytes, and descriptors beside them. Each
 * part of the session puts its own in, and the same part of the session in the other server takes
 * it out, in the same order. Both servers have the same MOVE_HASH, which covers the functions that
 * do so (proto/gen/moved.py). The bytes are checked nevertheless: they come from another process.
 *
 * One thread at a time.
 */

#include "base.h"

/* More than the largest session: a million pieces of memory. */
#define PACK_BYTES_MAX (256u << 20)
#define PACK_FDS_MAX 65536u

struct pack {
	uint8_t *bytes;
	size_t size, space, at;
	int *fds;
	uint32_t n_fds, n_fds_space, fd_at;
	bool is_bad; /* something did not fit, or was missing */
};

/* Closes the descriptors that were not taken. A zeroed pack is empty. */
void pack_fini(struct pack *pack);

void pack_put(struct pack *pack, const void *bytes, size_t size);
void pack_put_number(struct pack *pack, uint64_t value);

/* Takes `fd'. */
void pack_put_fd(struct pack *pack, int fd);

/* False: there are not so many bytes left, and the pack is bad. */
bool pack_get(struct pack *pack, void *bytes, size_t size);

/* The next number; 0 if it is missing, or larger than `max', and the pack is bad then. */
uint64_t pack_get_number(struct pack *pack, uint64_t max);

/* The next descriptor, which the caller owns; -EBADF: there is none. */
int pack_get_fd(struct pack *pack);

/* Whether everything was taken, and nothing was missing. */
bool pack_is_used_up(const struct pack *pack);

/* In a sealed file, and out of one. 0 or -errno. */
int pack_store(const struct pack *pack, int *ret_fd);
int pack_load(struct pack *pack, int fd, uint64_t size);

#endif
