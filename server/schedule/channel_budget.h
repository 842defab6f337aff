/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHANNEL_BUDGET_H
#define CHANNEL_BUDGET_H

/*
 * How many streams and executable graphs the driver can hold.
 *
 * Each stream takes a channel of the driver, and so does each branch of a graph; nodes of
 * graphs take memory. When the channels are taken, the driver makes more, which waits for
 * all that is on the GPU, with the driver's lock held (driver_facts.h).
 *
 * So the server counts free channels. While no stream is blocked (blocked_streams.h) it makes
 * channels in advance, all at once, and ends them: from then on it knows that so many are free. A
 * request within the free channels never waits. In the same way it makes memory for nodes, which
 * the driver keeps for later graphs: so the most nodes that there ever were are known to fit.
 *
 * Any worker, and the deferred thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "server/driver/driver.h"
#include "server/driver/driver_facts.h"

/* How many channels are free after some were made: 110 KiB of the GPU's memory each. */
#define CHANNEL_BUDGET_AHEAD 400u
/* Reserved for channel_budget_take_reserved(), and for sessions that are blocked themselves. */
#define CHANNEL_BUDGET_RESERVED 80u
#define CHANNEL_BUDGET_BLOCKED 80u
/* How many nodes the driver can hold from the start, with a reserve. */
#define CHANNEL_BUDGET_NODES (driver_facts()->n_graph_kernels - 64)
/* Of those that it can hold, these are for sessions that are blocked themselves. */
#define CHANNEL_BUDGET_NODES_BLOCKED 1024u
/* For how many nodes memory is made in advance: about 2 KiB and 6 us each. */
#define CHANNEL_BUDGET_NODES_AHEAD (2 * CHANNEL_BUDGET_NODES_BLOCKED)

struct device;
struct session;

/* What one stream or graph takes of a GPU. */
struct channel_part {
	uint32_t n_channels; /* at most; at least one, unless this is 0 */
	uint32_t n_nodes;
	uint32_t n_growths; /* set by channel_budget_take(): how often the budget had grown */
};

/* Under a lock of channel_budget.c. */
struct channel_budget {
	int64_t n_free;     /* at least; below 0 where a part took more than was known to be free */
	uint64_t n_taken;   /* so far, at most */
	uint64_t n_pending; /* of these, those of objects that are being made */
	uint64_t n_nodes;
	uint64_t n_nodes_pending;
	uint64_t n_nodes_more; /* beyond CHANNEL_BUDGET_NODES: the driver has held so many */
	uint32_t n_growths;
};

enum channel_way {
	CHANNELS_NONE, /* nothing was taken: quiet_call_begin() returned false */
	CHANNELS_THERE,
	CHANNELS_NEW, /* a quiet call, which channel_budget_taken() ends */
};

/* Makes channels in a context without work, or while no stream is blocked. */
void channel_budget_grow(struct device *device);

/*
 * Before and after making something that takes `part'. The first sleeps as
 * quiet_call_begin() does. The second follows unless nothing was taken; if the object could
 * not be made, it releases the part.
 */
enum channel_way channel_budget_take(struct session *session, struct device *device,
	struct channel_part *part, unsigned most_ms);
void channel_budget_taken(
	struct device *device, const struct channel_part *part, enum channel_way way, bool is_made);

/* For a stream that releases pending waits, and must not wait: takes `part' at once. */
void channel_budget_take_reserved(struct device *device, struct channel_part *part);

/* After the object has ended. */
void channel_budget_release(struct device *device, const struct channel_part *part);

#endif
