/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels, and memory for nodes.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "room.h"

#include "context.h"

#define CHANNELS_FIRST 36
#define CHANNELS_MORE 45
#define NODES_MORE 4160

static bool grow(size_t *n_made, size_t n_taken, size_t more)
{
	if (n_taken <= *n_made)
		return false;
	while (*n_made < n_taken)
		*n_made += more;
	return true;
}

void room_take(struct device *device, size_t n_channels, size_t n_nodes)
{
	struct room *room = &device->room;
	bool is_new;

	if (room->n_channels_made == 0) {
		room->n_channels_made = CHANNELS_FIRST;
		room->n_nodes_made = NODES_MORE;
	}
	room->n_channels += n_channels;
	room->n_nodes += n_nodes;
	is_new = grow(&room->n_channels_made, room->n_channels, CHANNELS_MORE);
	if (grow(&room->n_nodes_made, room->n_nodes, NODES_MORE) || is_new)
		(void)device_wait(device);
}

void room_leave(struct device *device, size_t n_channels, size_t n_nodes)
{
	device->room.n_channels -= n_channels;
	device->room.n_nodes -= n_nodes;
}
