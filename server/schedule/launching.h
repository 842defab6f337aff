/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCHING_H
#define LAUNCHING_H

/*
 * Which workers are launching: in a driver call that gives kernels to a GPU. And which programs
 * have work there.
 *
 * Any worker, and the deferred thread.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct device;
struct session;

/* A session's part: whether its worker is launching. */
struct launching {
	struct session *session;
	struct launching *next; /* in the list of all, under the lock of launching.c */
	bool is_listed;
	atomic_bool is_on; /* the worker gives kernels to a GPU that it found open */
	bool is_lone;      /* ... or that it has closed itself. The worker's */
	/* While the worker is held for the turn of a program on probation (probation.h): */
	atomic_uint held_at;    /* the GPU's ordinal + 1; 0: it is not held */
	atomic_bool is_at_rest; /* nothing of the session is on that GPU */
};

/*
 * Closed GPUs, and sessions on probation: while there are any, each worker looks before it gives
 * work to a GPU (closed_any()).
 */
extern atomic_uint launching_n_reasons;

/* Worker, when the session has opened a GPU: the functions below look at it from now on. */
void launching_join(struct session *session);

/* Whether a worker is launching now, other than that of session `but'. */
bool launching_any(const struct session *but);

/* The program of a session: its user and what the client has said. Never 0. */
uint64_t launching_program(const struct session *session);

/* Whether a session of that program is launching, or has work there. */
bool launching_works(const struct device *device, uint64_t program);

enum launching_work {
	WORK_NONE,
	WORK_IF_ANY, /* all sessions that may have some are held at the GPU's gate */
	WORK_SOME,
};

/* Whether sessions of other programs are launching, or have work there. */
enum launching_work launching_others(const struct device *device, uint64_t program);

#endif
