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
 * So the server counts what is taken. It makes channels in advance, and more of them while
 * no stream is blocked (blocked_streams.h). A request within the existing channels never
 * waits.
 *
 * Any worker, and the deferred thread.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver.h"
#include "driver_facts.h"

/* How many channels are free after some were made: 110 KiB of the GPU's memory each. */
#define CHANNEL_BUDGET_AHEAD 400u
/* Reserved for channel_budget_take_reserved(), and for sessions that are blocked themselves. */
#define CHANNEL_BUDGET_RESERVED 80u
#define CHANNEL_BUDGET_BLOCKED 80u
/* How many nodes the driver can hold from the start, with a reserve. */
#define CHANNEL_BUDGET_NODES (DRIVER_GRAPH_KERNELS - 64)

struct device;
struct session;

/* What one stream or graph takes of a GPU. */
struct channel_part {
	uint32_t n_channels; /* at most */
	uint32_t n_nodes;
};

/* Not under a lock. */
struct channel_budget {
	atomic_uint n_channels, n_nodes; /* taken, at most */
	atomic_uint n_parts;             /* each takes one channel at least */
	atomic_uint n_made;              /* channels that exist, at least */
};

enum channel_way {
	CHANNELS_NONE, /* nothing was taken: exclusive_call_begin() returned false */
	CHANNELS_THERE,
	CHANNELS_NEW, /* no stream becomes blocked before channel_budget_taken() */
};

/* Makes channels of a context without work, or while no stream is blocked. */
void channel_budget_grow(struct device *device);

/* Before making something that takes `part'. Sleeps as exclusive_call_begin() does. */
enum channel_way channel_budget_take(struct session *session, struct device *device,
	const struct channel_part *part, unsigned most_ms);
void channel_budget_taken(enum channel_way way);

/* For a stream that releases pending waits, and must not wait: one channel, at once. */
void channel_budget_take_reserved(struct device *device);

/* After the object has ended, or could not be made. */
void channel_budget_release(struct device *device, const struct channel_part *part);

#endif
