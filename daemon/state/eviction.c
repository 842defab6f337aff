/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The order of evictions. Any thread.
 *
 * Invariant: it is a total order of connections with different numbers.
 */

#include "eviction.h"

static bool has_more(const struct eviction_candidate *candidate)
{
	return candidate->n_conns > EVICTION_OWN_CONNS;
}

bool eviction_precedes(const struct eviction_candidate *one, const struct eviction_candidate *other)
{
	if (has_more(one) != has_more(other))
		return has_more(one);
	if (one->merit != other->merit)
		return one->merit < other->merit;
	if (one->n_conns != other->n_conns)
		return one->n_conns > other->n_conns;
	return one->number < other->number;
}
