/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCK_TABLE_H
#define LOCK_TABLE_H

/*
 * All locks of the server, of the client library and of the code that they share, in the order in
 * which a thread may take them: while it holds one, it takes only locks of lines below. The line
 * is the order number. A thread holds one lock of a line at most, also where many objects have
 * such a lock.
 *
 * A new lock goes above the locks that a thread takes while it holds the new one.
 */

/* LOCK(name, what it protects) */
#define LOCK_TABLE(LOCK)                                                                           \
	/* The server. */                                                                          \
	LOCK(DEVICE, "a GPU whose context is made: server/device/device.h")                        \
	LOCK(CU_LIMITS, "raised limits: server/share/cu_limit.c")                                  \
	LOCK(SM_SHARES, "which sessions use which SMs: server/share/sm_share.c")                   \
	LOCK(GREENS_KEPT, "unused green contexts: server/share/green.c")                           \
	LOCK(GIVING_BACK, "memory that goes back to the driver: server/device/device.h")           \
	LOCK(VA_SPACE, "calls that change mappings: server/driver/va_space.c")                     \
	LOCK(OWNERS, "owners of addresses: server/driver/owner.c")                                 \
	LOCK(COPY_KERNELS, "the library that copies: server/copy/copy_kernel.c")                   \
	LOCK(PLACING, "a wait that goes to its queue: server/schedule/blocked_streams.c")          \
	LOCK(PENDING_WAITS, "a session's waits: server/stream/pending_wait.h")                     \
	LOCK(BLOCKED_STREAMS, "blocked streams: server/schedule/blocked_streams.c")                \
	LOCK(CLOSED_GPUS, "closed GPUs: server/schedule/closed_gpu.c")                             \
	LOCK(PROBATION, "whose turn a GPU is: server/schedule/probation.c")                        \
	LOCK(CHANNEL_BUDGETS, "free channels: server/schedule/channel_budget.c")                   \
	LOCK(STREAM_POOLS, "unused streams: server/schedule/stream_pool.c")                        \
	LOCK(CLASSES, "sessions by class: server/schedule/classes.c")                              \
	LOCK(ELASTIC, "shares of background sessions: server/schedule/elastic.c")                  \
	LOCK(LOOP_TURNS, "sessions that wait for a turn: server/schedule/loop_turn.c")             \
	LOCK(WAITERS, "a session's watched events: server/stream/waiter.h")                        \
	LOCK(IPC_EVENTS, "events that sessions share: server/stream/shared_event.c")               \
	LOCK(IPC_MEMORY, "memory that sessions share: server/memory/ipc.c")                        \
	LOCK(TEXTURE_VALUES, "values of textures: server/array/texture_real.c")                    \
	LOCK(IMAGES, "images of code: server/util/image.c")                                        \
	LOCK(EVICTIONS, "sessions whose memory may leave: server/share/eviction.c")                \
	LOCK(HOST_STORE, "slots for evicted bytes: server/share/host_store.c")                     \
	LOCK(LEASES, "leases of memory: server/session/lease.c")                                   \
	LOCK(RECEIVER, "the process that receives descriptors: server/session/receiver.c")         \
	LOCK(DEFERRED, "calls that are made later: server/schedule/deferred.c")                    \
	LOCK(FAULT, "which fault came first: server/session/fault.c")                              \
	LOCK(LAUNCHING, "workers that may launch: server/schedule/launching.c")                    \
	LOCK(PRINTF, "what kernels print: server/stream/printf_capture.c")                         \
	LOCK(LAST_LAUNCH, "the name of a session's last launch: server/session/last_launch.h")     \
	LOCK(SERVER_LOG, "lines that wait for the daemon: server/util/log.c")                      \
	/* The client library: locks that a thread holds while it asks the server. */              \
	LOCK(ROUTE, "the choice of the route: client/transport/route.c")                           \
	LOCK(GRAPHS, "graphs and captures: client/graph/graph.c")                                  \
	LOCK(LEGACY_LAUNCH, "parameters of old launches: client/launch/legacy_launch.c")           \
	LOCK(LIBRARY, "a library's kernels: client/module/library.h")                              \
	LOCK(ARRAY_LEVELS, "levels of mipmapped arrays: client/array/array.c")                     \
	LOCK(POOL_SHARES, "imported pools: client/memory/pool_share.c")                            \
	LOCK(IPC, "memory that processes share: client/memory/ipc.c")                              \
	LOCK(VIRTUAL, "reserved addresses: client/memory/virtual.c")                               \
	LOCK(REACH, "the range that gets an alias late: client/memory/registered.c")               \
	LOCK(PAGE_EXCHANGES, "exchanged pages, and fork(): client/memory/exchange.c")              \
	LOCK(POOLS, "pools: client/memory/pool.c")                                                 \
	LOCK(HOST_REGIONS, "requests for host memory: client/memory/host.c")                       \
	LOCK(STREAM_TABLE, "numbers of streams: client/stream/stream.c")                           \
	LOCK(PRINTF_OUTPUT, "what kernels print: client/stream/printf_output.c")                   \
	LOCK(CONTEXT, "a context: client/context/context.h")                                       \
	LOCK(CONTEXT_SHARES, "numbers of contexts' shares: client/context/context_share.c")        \
	LOCK(DEVICES, "GPUs that are opened: client/context/device.c")                             \
	LOCK(ALLOCATIONS, "uses of allocations: client/memory/allocation.c")                       \
	LOCK(EVENT, "an event: client/stream/event.h")                                             \
	LOCK(STREAM, "what a stream has posted: client/stream/stream.h")                           \
	LOCK(READING, "a question until its descriptor: client/transport/server_link.h")           \
	LOCK(SENDING, "a descriptor until its message: client/transport/server_link.h")            \
	LOCK(ERROR_ACKS, "errors that are acknowledged: client/transport/server_link.c")           \
	LOCK(SERVER_EXCHANGE, "the change to the next server: client/transport/reconnect.c")       \
	LOCK(KEPT_FRAMES, "frames for the next server: client/transport/reconnect.c")              \
	LOCK(RING_SENDER, "a ring's tail: include/ring.h")                                         \
	LOCK(NEW_PAGE, "the change to the page of another server: client/transport/follow.c")      \
	/* The client library: locks for a moment. */                                              \
	LOCK(USER_OBJECTS, "uses of user objects: client/graph/user_object.c")                     \
	LOCK(CALLBACKS, "functions that run later: client/stream/callback.c")                      \
	LOCK(TEXTURES, "textures by handle: client/array/texture.c")                               \
	LOCK(STAGING, "blocks of staging memory: client/stream/staging.c")                         \
	LOCK(STREAM_ATTRIBUTES, "attributes of streams: client/stream/stream_attributes.c")        \
	LOCK(GREEN_DESCS, "descriptions of SMs: client/stream/green_resource.c")                   \
	LOCK(ADVICE, "advice about managed memory: client/memory/managed.c")                       \
	LOCK(REGISTERED, "registered memory: client/memory/registered.c")                          \
	LOCK(MEMORY_MAP, "memory by address: client/memory/memory.c")                              \
	LOCK(HOST_MAP, "mapped chunks of host memory: client/util/host_map.c")                     \
	LOCK(STORAGE, "values kept for a context: client/context/storage.h")                       \
	LOCK(COREDUMP, "settings of core dumps: client/context/coredump.c")                        \
	LOCK(LISTENERS, "who hears of changes: client/context/device_calls.c")                     \
	LOCK(SLAB, "a table of handles: client/util/slab.h")                                       \
	LOCK(HELPERS, "jobs of helper threads: client/util/worker_pool.c")                         \
	LOCK(CLIENT_LOGS, "lines for cuLogs: client/util/logs.c")                                  \
	/* Both, and the daemon. */                                                                \
	LOCK(ASYNC_CLOSE, "descriptors to close: proto/async_close.c")

enum lock_order {
	LOCK_NONE,
#define ORDER(name, what) LOCK_##name,
	LOCK_TABLE(ORDER)
#undef ORDER
	LOCKS,
};

#endif
