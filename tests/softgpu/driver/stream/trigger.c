/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers: see trigger.h.
 *
 * Runs in any thread, under the driver's lock but for trigger_pull().
 */

#include "trigger.h"

#include "tests/softgpu/driver/driver.h"

struct trigger *trigger_new(void)
{
	struct trigger *trigger = calloc(1, sizeof(*trigger));

	if (trigger)
		trigger->refs = 1;
	return trigger;
}

struct trigger *trigger_ref(struct trigger *trigger)
{
	if (trigger)
		trigger->refs++;
	return trigger;
}

void trigger_unref(struct trigger *trigger)
{
	if (trigger && --trigger->refs == 0)
		free(trigger);
}

void trigger_pull(struct trigger *trigger)
{
	pthread_mutex_lock(&driver.lock);
	trigger->is_pulled = true;
	pthread_cond_broadcast(&driver.progress);
	pthread_mutex_unlock(&driver.lock);
}
