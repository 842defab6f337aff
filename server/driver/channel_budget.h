/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHANNEL_BUDGET_H
#define CHANNEL_BUDGET_H

/*
 * What the driver has room for: streams, and executable graphs.
 *
 * Each stream takes a channel of the driver's, and so does each branch of a
 * graph; nodes of graphs take memory. It has 36 channels at first and makes 45
 * more when they are taken, and memory for some 4 160 kernels at a time; that
 * waits for all that is on the GPU, with the driver's lock held. What is left
 * is used again. (Measured on an H200, driver 580: tests/programs/driver_api/driver_waits.c.)
 *
 * So it is counted what is taken. Channels are made in advance, and more of them
 * while no stream is blocked (blocked_streams.h); within what there is nobody waits.
 *
 * Any worker, and the deferred thread.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

/* So many channels are free when some were made: 110 KiB of the GPU's memory each. */
#define CHANNEL_BUDGET_AHEAD 400u
/* Of these for channel_budget_take_key() alone, and besides for sessions that are blocked
 * themselves. */
#define CHANNEL_BUDGET_KEYS 80u
#define CHANNEL_BUDGET_BLOCKED 80u
/* As many nodes the driver has room for from the start. */
#define CHANNEL_BUDGET_NODES 4096u

struct device;
struct session;

/* What somebody has of a GPU's. */
struct channel_part {
	uint32_t n_channels; /* at most */
	uint32_t n_nodes;
};

/* Under no lock. */
struct channel_budget {
	atomic_uint n_channels, n_nodes; /* taken, at most */
	atomic_uint n_parts;             /* each has one channel at least */
	atomic_uint n_made;              /* channels that there are, at least */
};

enum channel_way {
	CHANNELS_NONE, /* nothing was taken: exclusive_call_begin() says false */
	CHANNELS_THERE,
	CHANNELS_NEW, /* nobody begins to stand before channel_budget_taken() */
};

/* Makes channels of a context where nobody works, or while no stream is blocked. */
void channel_budget_grow(struct device *device);

/* Before something is made that takes so much. sleeps as exclusive_call_begin() does. */
enum channel_way channel_budget_take(struct session *session, struct device *device,
	const struct channel_part *part, unsigned most_ms);
void channel_budget_taken(enum channel_way way);

/* For a stream that lets others go on, and must not wait: one channel, at once. */
void channel_budget_take_key(struct device *device);

/* When it has gone, or was not made. */
void channel_budget_release(struct device *device, const struct channel_part *part);

#endif
