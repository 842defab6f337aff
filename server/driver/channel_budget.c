/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counts what streams and graphs take of the driver's.
 *
 * Invariant: what is counted is never less than what the driver has given.
 */

#include "device.h"
#include "server/util/log.h"
#include "channel_budget.h"
#include "blocked_streams.h"

static void set_at_least(atomic_uint *value, unsigned least)
{
	unsigned now = atomic_load(value);

	while (now < least && !atomic_compare_exchange_weak(value, &now, least))
		;
}

/* A graph of one node, which any context can make; its event is the caller's too. */
static CUresult model_make(CUgraph *ret_model, CUevent *ret_event)
{
	CUgraphNode node;
	CUresult result = cuda.cuEventCreate(ret_event, CU_EVENT_DISABLE_TIMING);

	if (result != CUDA_SUCCESS)
		*ret_event = NULL;
	else
		result = cuda.cuGraphCreate(ret_model, 0);
	if (result != CUDA_SUCCESS)
		*ret_model = NULL;
	else
		result = cuda.cuGraphAddEventRecordNode(&node, *ret_model, NULL, 0, *ret_event);
	return result;
}

void room_make(struct device *device)
{
	struct room *room = &device->room;
	CUgraphExec made[ROOM_AHEAD];
	CUevent event = NULL;
	CUgraph model = NULL;
	CUresult result = model_make(&model, &event);
	unsigned n = 0;

	while (result == CUDA_SUCCESS && n < ROOM_AHEAD) {
		result = cuda.cuGraphInstantiateWithFlags(&made[n], model, 0);
		n += result == CUDA_SUCCESS;
	}
	if (n < ROOM_AHEAD)
		log_line("Device %u: %u streams could be made room for in advance, not %u",
			device->ordinal, n, ROOM_AHEAD);
	set_at_least(&room->n_made, atomic_load(&room->n_parts) + n);
	/* The driver keeps what they had. */
	while (n > 0)
		cuda.cuGraphExecDestroy(made[--n]);
	if (model)
		cuda.cuGraphDestroy(model);
	if (event)
		cuda.cuEventDestroy_v2(event);
}

static void add(struct room *room, const struct room_part *part)
{
	atomic_fetch_add(&room->n_channels, part->n_channels);
	atomic_fetch_add(&room->n_nodes, part->n_nodes);
	atomic_fetch_add(&room->n_parts, 1);
}

static bool has_channels(struct room *room, unsigned n_made, unsigned n_kept)
{
	return atomic_load(&room->n_channels) + n_kept <= n_made;
}

/* Beside what the session has to leave to others. */
static bool is_there(struct room *room, const struct session *session)
{
	unsigned n_kept = session && standing_has(session) ? ROOM_KEYS : ROOM_KEYS + ROOM_STANDING;

	return has_channels(room, atomic_load(&room->n_made), n_kept) &&
	       atomic_load(&room->n_nodes) <= ROOM_NODES;
}

/* Some of what is taken may have been counted too high: no use in making more for that. */
static bool wants_channels(struct room *room)
{
	const unsigned n_kept = ROOM_KEYS + ROOM_STANDING;

	return !has_channels(room, atomic_load(&room->n_made), n_kept) &&
	       has_channels(room, atomic_load(&room->n_parts) + ROOM_AHEAD, n_kept);
}

enum room_way room_take(struct session *session, struct device *device,
	const struct room_part *part, unsigned most_ms)
{
	struct room *room = &device->room;

	add(room, part);
	if (likely(is_there(room, session)))
		return ROOM_THERE;
	/* Who naps keeps nothing from others. */
	room_leave(device, part);
	if (!standing_call_begin(session, most_ms))
		return ROOM_NONE;
	add(room, part);
	if (wants_channels(room))
		room_make(device);
	return ROOM_NEW;
}

void room_taken(enum room_way way)
{
	if (unlikely(way == ROOM_NEW))
		standing_call_end();
}

void room_take_key(struct device *device)
{
	add(&device->room, &(struct room_part){.n_channels = 1});
}

void room_leave(struct device *device, const struct room_part *part)
{
	atomic_fetch_sub(&device->room.n_channels, part->n_channels);
	atomic_fetch_sub(&device->room.n_nodes, part->n_nodes);
	atomic_fetch_sub(&device->room.n_parts, 1);
}
