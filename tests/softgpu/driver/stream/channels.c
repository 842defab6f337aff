/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels, and memory for nodes.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "channels.h"

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

void channels_take(struct device *device, size_t n_channels, size_t n_nodes)
{
	struct channels *channels = &device->channels;
	bool is_new;

	if (channels->n_channels_made == 0) {
		channels->n_channels_made = CHANNELS_FIRST;
		channels->n_nodes_made = NODES_MORE;
	}
	channels->n_channels += n_channels;
	channels->n_nodes += n_nodes;
	is_new = grow(&channels->n_channels_made, channels->n_channels, CHANNELS_MORE);
	if (grow(&channels->n_nodes_made, channels->n_nodes, NODES_MORE) || is_new)
		(void)device_wait(device);
}

void channels_leave(struct device *device, size_t n_channels, size_t n_nodes)
{
	device->channels.n_channels -= n_channels;
	device->channels.n_nodes -= n_nodes;
}
