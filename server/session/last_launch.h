/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAST_LAUNCH_H
#define LAST_LAUNCH_H

/*
 * What a session has launched last, by name. A launch notes its name with one store; the loop
 * copies the name at any time.
 */

#include <stdatomic.h>

#include "lock.h"

/* Longest name of a kernel in messages to people; longer names are cut. */
#define KERNEL_NAME_MAX 256

/* The name of all graphs: which of its kernels is running is not known. */
#define LAST_LAUNCH_GRAPH "(graph)"

struct last_launch {
	const char *_Atomic name; /* NULL: nothing has been launched */
	struct lock lock;         /* the loop copies the name, or the worker moves it */
	char kept[KERNEL_NAME_MAX];
};

void last_launch_init(struct last_launch *last);
void last_launch_fini(struct last_launch *last);

/* Worker. The text does not change, and lives until last_launch_keep(), or for ever. */
static inline void last_launch_note(struct last_launch *last, const char *name)
{
	atomic_store_explicit(&last->name, name, memory_order_release);
}

/* Worker: the text of KERNEL_NAME_MAX bytes is about to be freed. */
void last_launch_keep(struct last_launch *last, const char *name);

/* Any thread. "" if nothing has been launched. */
void last_launch_copy(struct last_launch *last, char text[KERNEL_NAME_MAX]);

#endif
