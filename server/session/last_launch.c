/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: while a thread holds the lock, the text that `name' had under the lock is not freed.
 */

#include "last_launch.h"

#include <stdio.h>
#include <string.h>

void last_launch_init(struct last_launch *last)
{
	lock_init(&last->lock, LOCK_LAST_LAUNCH);
}

void last_launch_fini(struct last_launch *last)
{
	lock_fini(&last->lock);
}

/* Takes the lock also for another name: the loop may still be copying this one. */
void last_launch_keep(struct last_launch *last, const char *name)
{
	lock_take(&last->lock);
	if (atomic_load_explicit(&last->name, memory_order_relaxed) == name) {
		memcpy(last->kept, name, sizeof(last->kept));
		last_launch_note(last, last->kept);
	}
	lock_release(&last->lock);
}

void last_launch_copy(struct last_launch *last, char text[KERNEL_NAME_MAX])
{
	const char *name;

	lock_take(&last->lock);
	name = atomic_load_explicit(&last->name, memory_order_acquire);
	snprintf(text, KERNEL_NAME_MAX, "%s", name ? name : "");
	lock_release(&last->lock);
}
