/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARRAY_H
#define ARRAY_H

/*
 * Arrays and mipmapped arrays of a session, with their textures and surfaces. The session's
 * worker only, until one becomes a deferred call.
 */

#include "server/schedule/deferred.h"

struct device_quota;
struct pack;
struct session;
struct session_device;

/* An array, a level of a mipmapped array, or a mipmapped array. */
struct array {
	struct deferred deferred;
	uint32_t id;
	struct session_device *sdev; /* not owned */
	struct device_quota *memory; /* a reference */
	uint64_t charged;            /* to `memory'; 0: a level, whose parent pays */
	CUarray real;                /* NULL: mipmapped */
	CUmipmappedArray mipmap;
	struct array *parent; /* of a level: a reference; owns the driver's array */
	uint32_t refs;        /* of the ID, its levels, and graphs */
	uint64_t width;       /* bytes of a row */
	uint64_t height, depth;
	uint32_t n_levels; /* that were requested, or 1; of a level 0 */
	uint64_t bytes;    /* of all elements; of a level 0 */
};

/* Whole rows and slices of an array. */
struct array_box {
	uint64_t y, z, n_rows, n_slices;
	uint64_t bytes;
};

/* A texture or surface object. The client must keep its array or memory, as natively. */
struct texture {
	struct deferred deferred;
	uint32_t id;
	bool is_surface;
	uint64_t real;
};

/* Keeps it until the last reference is dropped, also after the ID has ended. */
struct array *array_ref(struct array *array);
void array_unref(struct array *array); /* NULL is fine */

/* All boxes of all levels, each of ARRAY_BOX_MAX bytes at most, in an order that does not change.
 */
#define ARRAY_BOX_MAX (2ull << 20) /* a row of the widest array is not longer */
typedef CUresult array_box_function(
	void *arg, const struct array *level, const struct array_box *box);
CUresult array_each_box(struct session *session, const struct array *array,
	array_box_function *function, void *arg);

/*
 * Waits for a stream that waits for none of the client's work, but not in the driver, because
 * other clients may keep the GPU busy for long.
 */
CUresult array_wait(struct session *session, CUstream real);

/* ---- contents on their way to arrays that are made again (array_contents.c) */

/* Zero-initialised: there are none. */
struct array_contents {
	int fd;                 /* a file of memory, if n_left > 0 */
	struct saved_array *of; /* in ascending order of their IDs */
	uint32_t n, n_left;     /* that were not made again yet */
};

/*
 * The session is at rest, and its arrays are about to end: keeps their contents for
 * array_contents_restore(). 0 or -errno.
 */
int array_contents_keep(struct session *session);
void array_contents_fini(struct array_contents *contents);

/* In a replay. False: the array's contents were not kept. */
bool array_contents_has(const struct session *session, uint32_t id);
CUresult array_contents_restore(struct session *session, struct array *array);

/* Functions of arrays_part. */
const char *array_contents_obstacle(struct session *session);
const char *array_contents_stay(const struct session *session);
int array_contents_pack(struct session *session, struct pack *pack);
int array_contents_check(struct session *session, struct pack *pack);
int array_contents_unpack(struct session *session, struct pack *pack);

#endif
