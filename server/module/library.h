/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBRARY_H
#define LIBRARY_H

/*
 * Loaded images and the kernels found in them. Each client has its own library of an image,
 * and so its own variables. The session's worker only, until a library becomes a deferred
 * call.
 *
 * kernel.c, managed.c and placement.c call each other: a library is loaded again when its variables
 * have their addresses, and its kernels are replaced then.
 */

#include "jit.h"
#include "wire.h"
#include "server/schedule/deferred.h"

struct constant;
struct device;
struct device_quota;
struct kernel;
struct managed;
struct placement;
struct session_device;
struct session;

/* How much of a GPU's memory it uses, if a limit counts that. */
struct library_charge {
	struct library_charge *next;
	struct device_quota *memory; /* a reference */
	uint64_t size;
};

struct library {
	struct deferred deferred; /* owns the real library and its image */
	uint32_t id;
	uint32_t n_users;   /* nodes of graphs, which keep it loaded */
	bool is_ended;      /* removed from the tables */
	bool is_used;       /* the program could distinguish it from a reloaded one (managed.c) */
	bool keeps_managed; /* its variables of __managed__ stay where the driver has them */
	bool stays;         /* so do all its variables (placement.h) */
	bool is_unread;     /* ... and it may have none */
	bool is_looked;     /* library_stays_with() has looked at it */
	bool has_constants; /* the client has had the address of one */
	const char *reason; /* why the session cannot move; NULL: not because of this library */
	uint64_t loaded_on; /* the GPUs on which its code has been loaded, one bit each */
	struct kernel *kernels;
	struct library_charge *charges; /* owned */
	struct managed *managed;        /* owned; NULL: the client has requested none */
	struct placement *placements;   /* owned: one for each GPU where its variables are placed */
	struct constant *constants;     /* owned: of another server, until they are made again */
	uint64_t recalled_address;      /* of the next one */
	struct session *session;        /* not owned; not used by the deferred call */
	struct jit jit; /* passed to the driver, which compiles kernels on request */
	char log_bytes[];
};

/* Reasons. */
#define PLACED_BY_DRIVER "it has code whose variables the driver has placed"
#define KEEPS_FUNCTIONS "it has linked code that keeps addresses of functions"

/*
 * Why the session cannot move with this library. NULL: it can. Reads code that was not read yet if
 * the session is about to move.
 */
const char *library_stays_with(struct session *session, struct library *library);

/* A node of a graph begins or ends using a kernel of it. */
void library_use(struct library *library);
void library_unuse(struct library *library);

#endif
