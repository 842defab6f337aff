/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEFERRED_H
#define DEFERRED_H

/*
 * Driver calls that wait for everybody's kernels and hold up everybody
 * meanwhile, kept until no session has work on a GPU: cuLibraryUnload,
 * cuArrayDestroy, cuGraphExecDestroy. One thread for the whole server makes them, in the order in
 * which they came.
 */

#include "driver.h"
#include "server/util/image.h"

struct session;

/* Embedded in what it unloads, so that keeping it needs no memory. */
struct deferred {
	struct deferred *next;
	CUcontext context;   /* is current for on_done, if the driver can; NULL: any */
	unsigned n_refusals; /* of the driver, to make it current */
	CUlibrary library;   /* NULL: the calls are on_done's */
	struct image *image; /* owned: the driver may read it until then */
	void (*on_done)(struct deferred *deferred);
};

/* Starts the thread. 0 or -errno. */
int deferred_start(void);

/* Makes the calls that are left, unless the context is lost, and ends the thread. */
void deferred_stop(void);

/* Takes it: on_done frees it, on the deferred thread. */
void deferred_add(struct deferred *deferred);

/* Much was freed elsewhere: the system has the memory back as soon as no session has work. */
void deferred_note_freed(void);

/* Limits may be lowered (limit.h) as soon as no session has work. */
void deferred_note_limits(void);

/* So many wait that who makes new ones had better stop. */
bool deferred_is_full(void);

/* How many came so far; whether as many have been made. Any thread. */
uint64_t deferred_n_added(void);
bool deferred_has_made(uint64_t n);

/* What waits may be memory that somebody needs: the calls are made beside running work. */
void deferred_reclaim(void);

/* A session has work on a GPU from now on, or no more. */
void deferred_busy(bool is_busy);

/* How many have. Any thread. */
unsigned deferred_n_busy(void);

/* The worker: the deferred calls must know who has work on a GPU. */
void session_set_busy(struct session *session, bool is_busy);

#endif
