/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARRAY_H
#define ARRAY_H

/*
 * Arrays and mipmapped arrays of a session, and the textures and surfaces that
 * look at them. The session's worker only, until one goes to the deferred calls.
 */

#include "server/driver/deferred.h"

struct device_quota;
struct session_device;
struct session;
struct session_room;

/* An array, a level of a mipmapped one, or a mipmapped one. */
struct array {
	struct deferred deferred;
	uint32_t id;
	struct session_device *sdev; /* not owned */
	struct device_quota *memory; /* a reference */
	uint64_t charged;            /* to it; 0: a level, its parent pays */
	CUarray real;                /* NULL: mipmapped */
	CUmipmappedArray mipmap;
	struct array *parent; /* of a level: holds a reference, and the driver's array */
	uint32_t refs;        /* the id's, its levels', and graphs' */
	uint64_t width;       /* bytes of a row */
	uint64_t height, depth;
};

/* A texture or surface object; what it looks at is the client's care, as natively. */
struct texture {
	struct deferred deferred;
	uint32_t id;
	bool is_surface;
	uint64_t real;
};

/* Kept though its id has gone, until it is no more. */
struct array *array_ref(struct array *array);
void array_unref(struct array *array); /* NULL is fine */

/* What is done for each session: see session_room.h. */
extern const struct session_room arrays_room;
extern const struct session_room textures_room;

#endif
