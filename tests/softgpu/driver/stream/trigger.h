/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRIGGER_H
#define TRIGGER_H

/*
 * The completion event of a launch: it is done when all blocks of the kernel have begun.
 * The launch pulls the trigger then. As on an H100 with driver 580, a programmatic event of a
 * launch has none: it is done when the kernel has ended.
 *
 * All under the driver's lock.
 */

#include <stdbool.h>
#include <stdint.h>

struct trigger {
	uint32_t refs;
	bool is_pulled;
};

/* NULL without memory. */
struct trigger *trigger_new(void);

/* Both accept NULL. */
struct trigger *trigger_ref(struct trigger *trigger);
void trigger_unref(struct trigger *trigger);

/* Called by a stream's thread without the lock. */
void trigger_pull(struct trigger *trigger);

#endif
