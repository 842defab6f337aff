/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_FACTS_H
#define DRIVER_FACTS_H

/*
 * What this server relies on that no document of the driver says. All figures were
 * measured with driver 580 (CUDA 13.0), on an H200 where no other GPU is named. The
 * program named beside a figure, in tests/programs/driver_api, measures it again.
 *
 * driver.c also calls two functions of a private table: driver_read_topology().
 *
 * With another driver the server works in the same way, but a figure may be wrong:
 * calls may then wait beside blocked streams. server.log has a line that says so.
 */

/* What cuDriverGetVersion() says of the measured driver, and the driver's own number. */
#define DRIVER_FACTS_VERSION 13000
#define DRIVER_FACTS_BRANCH 580

/*
 * Hardware queues of a context, with the CUDA_DEVICE_MAX_CONNECTIONS that the daemon sets.
 * At 12 blocked streams some work of other streams is put behind them at times, at 20
 * kernels are, and at 32 nothing runs. (driver_queues.c)
 */
#define DRIVER_QUEUES 32u
#define DRIVER_QUEUES_BLOCKED 8u

/* Calls that a queue takes. The next call waits, with the driver's lock held. (driver_waits.c) */
#define DRIVER_QUEUE_CALLS 1020u

/*
 * Channels: one for each stream and each branch of an executable graph. A context has this
 * many at first. When they are taken, the driver makes more at once, which waits for all that
 * is on the GPU, with its lock held. Freed channels are used again. (driver_waits.c)
 */
#define DRIVER_CHANNELS 36u
#define DRIVER_CHANNELS_MORE 45u

/* The same of a green context, measured on an H100; graphs use the primary context's channels. */
#define DRIVER_CHANNELS_GREEN 40u

/* Kernels of executable graphs for which a context has memory at first. (driver_waits.c) */
#define DRIVER_GRAPH_KERNELS 4160u

/*
 * Memory of the GPU that an executable graph takes for each node in the body of a conditional
 * node. When the graph ends, the driver keeps this memory for later graphs.
 * (driver_keeps.c)
 */
#define DRIVER_BODY_NODE_MEMORY (60ull << 10)

/*
 * A loop (a conditional node of type WHILE) beside kernels of other streams can end a context with
 * CUDA_ERROR_LAUNCH_FAILED, also in a native process: in 10 of 10 runs of loops of 500 or 5 000
 * rounds beside six or seven threads that launch kernels, graphs or IF and SWITCH nodes, in each
 * run of three loops of 500 rounds, and in each run of clients of the vendor's service. It did not
 * do so beside copies, alone in its context, or in the one run with kernels of 20 us in its body.
 * IF and SWITCH nodes never did so. H100, driver 580.159.04. (graph_loops.cu)
 */

/* Host memory that the driver leaks with each green context that is made and ended.
 * (driver_growth.c) */
#define DRIVER_GREEN_LEAK ((16u << 20) / 10)

/*
 * Calls that wait for all that is on the GPU, with the driver's lock held (driver_waits.c):
 * loading and unloading code, unpinning memory, raising the stack, the first launch of a
 * kernel with more local memory than any before, the first change of an attribute of a
 * kernel, making a green context, ending an array and, at times, a graph. The server makes
 * them as quiet calls (quiet.h), but for a graph that it ends at once: that seldom waits, and is
 * an exclusive call (blocked_streams.h).
 *
 * What the driver keeps in host memory for each object: server/util/kept.h (driver_keeps.c).
 */

#endif
