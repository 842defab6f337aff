/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Divides the driver's stream priorities into ranges. Any thread.
 *
 * Invariant: the least priority of each range is above the greatest of the next range, as
 * long as the driver has a priority for each of them.
 */

#include "priority.h"

/* How many of the driver's `n' are for background clients and for those below normal. */
static int32_t count_background(int32_t n)
{
	return n >= 3 ? 1 : 0;
}

/* Two, so that one stream of such a client can precede its others. */
static int32_t count_below(int32_t n)
{
	if (n >= 6)
		return 2;
	return n >= 2 ? 1 : 0;
}

struct priority_range priority_range(const struct device *device, int32_t client_priority)
{
	int32_t least = device->priority_least, greatest = device->priority_greatest;
	int32_t n = least - greatest + 1;
	int32_t below = least - count_background(n), normal = below - count_below(n);

	if (client_priority <= PRIORITY_NORMAL)
		return (struct priority_range){normal, greatest};
	if (client_priority == PRIORITY_BELOW)
		return (struct priority_range){below, MIN(normal + 1, below)};
	return (struct priority_range){least, MIN(below + 1, least)};
}

int32_t priority_real(const struct device *device, struct priority_range range, int32_t priority)
{
	int32_t width = range.least - range.greatest, above = 0;

	if (priority < device->priority_least - width)
		above = width;
	else if (priority < device->priority_least)
		above = device->priority_least - priority;
	return range.least - above;
}

int32_t priority_normal(const struct device *device)
{
	return priority_range(device, PRIORITY_NORMAL).least;
}

bool priority_choose(const struct frame_variable *own, int32_t of_operator, int32_t *ret_priority)
{
	const char *value = own->value;
	int32_t priority;

	*ret_priority = of_operator;
	if (!own->is_set || !*value)
		return true;
	if (value[1] || *value < '0' || *value > '2')
		return false;
	priority = *value - '0';
	if (of_operator < PRIORITY_BACKGROUND)
		*ret_priority = priority;
	return true;
}
