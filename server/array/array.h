/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARRAY_H
#define ARRAY_H

/*
 * Arrays and mipmapped arrays of a session, with their textures and surfaces. The session's
 * worker only, until one becomes a deferred call.
 */

#include "server/schedule/deferred.h"

struct device_quota;
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

#endif
