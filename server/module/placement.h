/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLACEMENT_H
#define PLACEMENT_H

/*
 * The variables of a library lie in memory of its session: at the first use of the library on a
 * GPU, the server takes memory for them there, writes their initial values, and loads the
 * library's machine code again with their addresses in it (globals.h). So they count for the
 * session's limit, leave the GPU with its other memory, and keep their addresses in another
 * server.
 *
 * A library whose variables cannot be placed is used as the program has loaded it, and the
 * session has a reason why it cannot move (library_immovable()).
 *
 * The session's worker only, until the changed library becomes a deferred call.
 */

#include "globals.h"
#include "server/schedule/deferred.h"

struct library;
struct session;
struct session_device;

/* The variables of a library on one GPU. */
struct placement {
	struct deferred deferred; /* of the changed library, which reads the bytes of `globals' */
	struct placement *next;
	uint32_t device;
	struct globals globals;
	uint64_t address;     /* of the session's memory, which it owns */
	bool keeps_functions; /* memory may have addresses of functions, apart from virtual tables
			       */
};

/*
 * The library on that GPU, before its code is loaded there. NULL: as the program has loaded it.
 * CUDA_ERROR_OUT_OF_MEMORY: there is no memory for the variables. Or a fault.
 */
CUresult placement_get(struct session *session, struct library *library,
	struct session_device *sdev, const struct placement **ret_placement);

/*
 * The driver has answered `result' when it had to load the changed code. Whether to try again: the
 * library is used as the program has loaded it from now on.
 */
bool placement_refuse(struct session *session, struct library *library,
	const struct session_device *sdev, CUresult result);

/* The library ends, or is loaded again: gives the memory back when the session has no work. */
void placements_end(struct session *session, struct library *library);

/* The same for all that have ended, now: the session has no work. */
void placements_flush(struct session *session);

/*
 * Where the variables of the library lie on that GPU; 0: the library has none, has not been used
 * there, or its variables are not placed.
 */
uint64_t library_place(const struct library *library, uint32_t device);

/*
 * For a session that is made again: the variables lie there already, with their values, in used
 * memory of the session. Comes after the library was loaded and before its first use. False: no
 * memory.
 */
bool library_keep_place(
	struct session *session, struct library *library, uint32_t device, uint64_t address);

#endif
