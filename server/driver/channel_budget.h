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
 * while no stream stands still (standing.h); within what there is nobody waits.
 *
 * Any worker, and the deferred thread.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

/* So many channels are free when some were made: 110 KiB of the GPU's memory each. */
#define ROOM_AHEAD 400u
/* Of these for room_take_key() alone, and besides for sessions that stand still themselves. */
#define ROOM_KEYS 80u
#define ROOM_STANDING 80u
/* As many nodes the driver has room for from the start. */
#define ROOM_NODES 4096u

struct device;
struct session;

/* What somebody has of a GPU's. */
struct room_part {
	uint32_t n_channels; /* at most */
	uint32_t n_nodes;
};

/* Under no lock. */
struct room {
	atomic_uint n_channels, n_nodes; /* taken, at most */
	atomic_uint n_parts;             /* each has one channel at least */
	atomic_uint n_made;              /* channels that there are, at least */
};

enum room_way {
	ROOM_NONE, /* nothing was taken: standing_call_begin() says false */
	ROOM_THERE,
	ROOM_NEW, /* nobody begins to stand before room_taken() */
};

/* Makes channels of a context where nobody works, or while nobody stands still. */
void room_make(struct device *device);

/* Before something is made that takes so much. Naps as standing_call_begin() does. */
enum room_way room_take(struct session *session, struct device *device,
	const struct room_part *part, unsigned most_ms);
void room_taken(enum room_way way);

/* For a stream that lets others go on, and must not wait: one channel, at once. */
void room_take_key(struct device *device);

/* When it has gone, or was not made. */
void room_leave(struct device *device, const struct room_part *part);

#endif
