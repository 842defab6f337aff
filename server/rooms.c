/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lists through which lower rooms call higher ones. They are constant.
 *
 * Invariant: when a session ends, nothing ends that the GPU still uses, and waiters, which
 * keep events of streams, end before the streams.
 */

#include "server/session/session_part.h"
#include "server/device/device.h"
#include "server/share/arena.h"

const struct session_part *const session_parts[] = {
	&evictions_part, /* has no end function: session_devices_part ends it */
	&classes_part,
	&background_part,
	&foreground_part,
	&launch_batches_part, /* has no end function: its graphs end with their streams */
	&tracer_part,
	&pending_waits_part,
	&printf_capture_part,
	&waiters_part,
	&graphs_part,
	&elastic_streams_part,
	&streams_part,
	&loop_turns_part,
	&greens_part,
	&context_shares_part,
	&events_part,
	&textures_part,
	&arrays_part,
	&linkers_part,
	&libraries_part,
	&staging_part,
	&timeline_part,
	&host_part,
	&aliases_part,
	&virtual_part,
	&ipc_part,
	&shared_events_part,
	&session_devices_part,
	&probation_part,
	&launching_part,
	&recv_fd_part,
	NULL,
};

const struct device_part *const device_parts[] = {
	&closed_gpu_part,
	&sm_share_part,
	&greens_device_part,
	&cu_limit_part, /* its heap comes before the first kernel */
	&copy_kernel_part,
	&channel_budget_part,
	&stream_pool_part,
	&probation_device_part,
	&quiet_part, /* has events of the context, so nothing fails after it */
	NULL,
};

const struct arena_sharing *const arena_sharing = &ipc_sharing;
