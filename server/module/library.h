/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBRARY_H
#define LIBRARY_H

/*
 * Loaded images and the kernels found in them. Each client has its own library
 * of an image, so its variables are its own. The session's worker only, until
 * a library goes to the deferred calls.
 */

#include "server/driver/deferred.h"
#include "jit.h"
#include "wire.h"

struct device_quota;
struct kernel;
struct managed;
struct session_device;
struct session;
struct session_room;

/* What the driver's compiler says of an image it refuses, where the client asks for no more. */
#define LIBRARY_LOG_SIZE 1024

/* What it takes of a GPU's memory, where a limit counts that. */
struct library_charge {
	struct library_charge *next;
	struct device_quota *memory; /* a reference */
	uint64_t size;
};

struct library {
	struct deferred deferred; /* holds the real library and its image */
	uint32_t id;
	uint32_t n_users;   /* nodes of graphs, which keep it loaded */
	bool is_ended;      /* off the tables */
	bool is_used;       /* somebody could tell it from one that is loaded anew (managed.c) */
	bool keeps_managed; /* its variables of __managed__ stay where the driver has them */
	struct kernel *kernels;
	struct library_charge *charges; /* owned */
	struct managed *managed;        /* owned; NULL: nobody asked for variables of that kind */
	struct jit jit; /* as the driver was given it: it compiles a kernel when asked for it */
	char log_bytes[];
};

/*
 * Makes a library of the image that comes on the connection, with room for two
 * logs. It is in the session's table; the driver does not know it yet.
 */
CUresult library_new(struct session *session, uint32_t id, uint64_t size, uint32_t error_size,
	uint32_t info_size, struct library **ret_library);

/* Gives it to the driver. */
CUresult library_load(struct library *library);

/*
 * Before anything of it is used on a GPU, which makes its variables there: they count
 * for the session's limit, if it has one. CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult library_charge(
	struct session *session, struct library *library, struct session_device *sdev);

/* Undoes library_new(); the driver has not taken it. */
void library_drop(struct session *session, struct library *library);

/* Takes it off the tables; the driver unloads it later. */
void library_end(struct session *session, struct library *library);

/* A kernel of it is in a graph, or is no more. */
void library_use(struct library *library);
void library_unuse(struct library *library);

/* Tells the log that the driver refused the image or a kernel of it, and why. */
void library_log_refusal(struct session *session, struct library *library, CUresult result);

/* What is done for each session: see session_room.h. */
extern const struct session_room libraries_room;

#endif
