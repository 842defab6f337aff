/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The figures of each measured driver. Chosen before there are threads, only read afterwards.
 */

#include "driver_facts.h"

#include "base.h"

/* In the order of the versions. `tests/gpu/facts' prints a row. */
static const struct driver_facts measured[] = {
	/*
	 * Of 32 queues. At 12 blocked streams some work of other streams is put behind them at
	 * times, at 20 kernels are, and at 32 nothing runs. A primary context has 36 channels at
	 * first, and then 45 more at once. The channels of a green context are those on an H100.
	 */
	{
		.version = 13000,
		.branch = 580,
		.n_queues_blocked = 8,
		.n_queue_calls = 1020,
		.n_channels_green = 40,
		.n_graph_kernels = 4160,
		.body_node_memory = 61440,
	},
};

static const struct driver_facts *chosen = &measured[ARRAY_SIZE(measured) - 1];

const struct driver_facts *driver_facts(void)
{
	return chosen;
}

const struct driver_facts *driver_facts_find(
	const struct driver_facts *rows, size_t n_rows, int version)
{
	const struct driver_facts *found = rows;

	for (size_t i = 1; i < n_rows; i++)
		if (rows[i].version <= version)
			found = &rows[i];
	return found;
}

void driver_facts_choose(int version)
{
	chosen = driver_facts_find(measured, ARRAY_SIZE(measured), version);
}

const struct driver_facts *driver_facts_all(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(measured);
	return measured;
}
