/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEFERRED_H
#define DEFERRED_H

/*
 * Driver calls that wait for the kernels of all clients and delay all clients meanwhile:
 * cuLibraryUnload, cuArrayDestroy, cuGraphExecDestroy. They are kept until no session has
 * work on a GPU. One thread for the whole server makes them, in the order in which they were
 * added.
 */

#include "server/util/image.h"
#include "server/driver/driver.h"

/* Embedded in the object that it ends, so that adding it needs no memory. */
struct deferred {
	struct deferred *next;
	CUcontext context;   /* current during on_done, if the driver can; NULL: any */
	unsigned n_refusals; /* refusals by the driver to make it current */
	CUlibrary library;   /* NULL: on_done makes the calls */
	struct image *image; /* owned: the driver may read it until the unload */
	void (*on_done)(struct deferred *deferred);
};

/* Starts the thread. 0 or -errno. */
int deferred_start(void);

/* Makes the remaining calls, unless the context is lost, and ends the thread. */
void deferred_stop(void);

/* Takes `deferred': on_done frees it, on the deferred thread. */
void deferred_add(struct deferred *deferred);

/*
 * Much memory was freed elsewhere: the thread gives it back to the system as soon as no
 * session has work.
 */
void deferred_note_freed(void);

/* Calls `function' on the thread as soon as no session has work. There is one such function. */
void deferred_when_idle(void (*function)(void));

/* How many calls were added so far; whether as many have been made. Any thread. */
uint64_t deferred_n_added(void);
bool deferred_has_made(uint64_t n);

/* The waiting calls may free memory that a session needs: makes them while work is running. */
void deferred_reclaim(void);

#endif
