/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lists through which lower rooms call higher ones. They are constant.
 *
 * Invariant: when a session ends, nothing ends that the GPU still uses, and waiters, which
 * keep events of streams, end before the streams.
 */

#include "server/session/session_room.h"
#include "server/driver/green.h"
#include "server/driver/session_device.h"
#include "server/stream/context_share.h"
#include "server/stream/event.h"
#include "server/stream/pending_wait.h"
#include "server/stream/printf_capture.h"
#include "server/stream/stream.h"
#include "server/stream/tracer.h"
#include "server/stream/waiter.h"
#include "server/memory/alias.h"
#include "server/memory/array.h"
#include "server/memory/host.h"
#include "server/memory/ipc.h"
#include "server/memory/virtual.h"
#include "server/copy/copy_kernel.h"
#include "server/copy/staging.h"
#include "server/module/library.h"
#include "server/module/linker.h"
#include "server/launch/background.h"
#include "server/launch/launch_batch.h"
#include "server/graph/graph.h"
#include "server/graph/loop_turn.h"

const struct session_room *const session_rooms[] = {
	&background_room,
	&launch_batches_room, /* has no end function: its graphs end with their streams */
	&tracer_room,
	&pending_waits_room,
	&printf_capture_room,
	&waiters_room,
	&graphs_room,
	&streams_room,
	&loop_turns_room,
	&greens_room,
	&context_shares_room,
	&events_room,
	&textures_room,
	&arrays_room,
	&linkers_room,
	&libraries_room,
	&staging_room,
	&timeline_room,
	&host_room,
	&aliases_room,
	&virtual_room,
	&ipc_room,
	&session_devices_room,
	&posts_room,
	NULL,
};

const struct device_room *const device_rooms[] = {
	&copy_kernel_room,
	NULL,
};

const struct arena_sharing *const arena_sharing = &ipc_sharing;
