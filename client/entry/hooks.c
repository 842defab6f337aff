/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What each room does when a GPU is opened, when a context ends, and at other
 * moments (hooks.h).
 *
 * Invariant: when a context ends, its graphs and modules end before the events,
 * streams and memory that they use.
 */

#include "client/context/hooks.h"

#include "client/transport/server_link.h"
#include "client/context/context.h"
#include "client/context/context_share.h"
#include "client/context/coredump.h"
#include "client/stream/event.h"
#include "client/stream/green.h"
#include "client/stream/stream.h"
#include "client/memory/ipc.h"
#include "client/memory/memory.h"
#include "client/memory/pool.h"
#include "client/array/array.h"
#include "client/array/texture.h"
#include "client/module/library.h"
#include "client/graph/exec.h"
#include "client/graph/graph_memory.h"

static void open_device(struct device *device)
{
	stream_open_null(device->primary, device->index);
}

static void leave_context(struct context *context)
{
	/* The calls that follow report the same errors. */
	(void)streams_wait_device(context->device->index);
	greens_end_context(context);
}

static void end_context(struct context *context)
{
	execs_end_context(context);
	graph_memories_end_context(context);
	modules_end_context(context);
	streams_new_wait(context, NULL);
	events_end_context(context);
	textures_end_context(context);
	arrays_end_context(context);
	memory_end_context(context);
	streams_end_context(context);
	context_share_end(context);
	coredump_end_context(context);
}

/* After a fault only the program's objects end, which need no server. */
static bool free_ended(bool may_ask)
{
	bool is_waiting = execs_free_ended();

	if (server_link_check(&server) != CUDA_SUCCESS)
		return is_waiting;
	is_waiting |= streams_free_ended();
	is_waiting |= pools_free_ended();
	is_waiting |= ipc_free_closed(may_ask);
	return is_waiting;
}

const struct hooks hooks = {
	.open_device = open_device,
	.open_share = stream_open_own_null,
	.leave_context = leave_context,
	.end_context = end_context,
	.reclaim_pools = pools_reclaim,
	.free_ended = free_ended,
	.free_graph_memory = graph_memory_free,
};
