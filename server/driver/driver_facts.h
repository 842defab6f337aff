/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_FACTS_H
#define DRIVER_FACTS_H

/*
 * What this server relies on that no document of the driver says: one row of figures for each
 * measured version of the driver. `tests/gpu/facts' measures the row of the driver at hand;
 * docs/hacking.md says how to add one. An H200 gave the figures, where no other GPU is named.
 *
 * With a driver that has no row the server works in the same way, but a figure may be wrong:
 * calls may then wait beside blocked streams. server.log has a line that says so.
 *
 * driver.c also calls two functions of a private table: driver_read_topology().
 */

#include <stddef.h>
#include <stdint.h>

/*
 * Hardware queues of a context, with the CUDA_DEVICE_MAX_CONNECTIONS that the daemon sets: the
 * most that the driver takes.
 */
#define DRIVER_QUEUES_MAX 32u

struct driver_facts {
	int version; /* what cuDriverGetVersion() says */
	int branch;  /* the driver's own number */

	/* Streams that may be blocked while work of all other streams runs. */
	uint32_t n_queues_blocked;

	/* Calls that a queue takes. The next call waits, with the driver's lock held. */
	uint32_t n_queue_calls;

	/*
	 * Channels of a green context: one for each stream. When they are taken, the driver makes
	 * more at once, which waits for all that is on the GPU, with its lock held. Freed channels
	 * are used again. A primary context has channels as well, also one for each branch of an
	 * executable graph; the server does not rely on their number (channel_budget.h).
	 */
	uint32_t n_channels_green;

	/* Kernels of executable graphs for which a context has memory at first. */
	uint32_t n_graph_kernels;

	/*
	 * Memory of the GPU that an executable graph takes for each node in the body of a
	 * conditional node. When the graph ends, the driver keeps this memory for later graphs.
	 */
	uint64_t body_node_memory;
};

/* The row of this driver, from driver_open() on: see driver_facts_find(). */
const struct driver_facts *driver_facts(void);

/* Called by driver_open(). */
void driver_facts_choose(int version);

/*
 * The row of that version; without one, the row of the newest version before it, or else the
 * oldest row. The rows are in the order of their versions.
 */
const struct driver_facts *driver_facts_find(
	const struct driver_facts *rows, size_t n_rows, int version);

/* All rows, for tests. */
const struct driver_facts *driver_facts_all(size_t *ret_n);

/*
 * Facts without a figure, measured with driver 580:
 *
 * A loop (a conditional node of type WHILE) beside kernels of other streams can end a context with
 * CUDA_ERROR_LAUNCH_FAILED, also in a native process: in 10 of 10 runs of loops of 500 or 5 000
 * rounds beside six or seven threads that launch kernels, graphs or IF and SWITCH nodes, in each
 * run of three loops of 500 rounds, and in each run of clients of the vendor's service. It did not
 * do so beside copies, alone in its context, or in the one run with kernels of 20 us in its body.
 * IF and SWITCH nodes never did so. H100, driver 580.159.04. (graph_loops.cu)
 *
 * A disabled fill of one row orders nothing: nodes behind it, and work of the stream behind the
 * graph, do not wait for the nodes before it. So a graph may run on after a wait for its stream,
 * and after it was destroyed: then the context ended with CUDA_ERROR_LAUNCH_FAILED in some runs, or
 * a later wait did not end. So it was natively with fills of 1 byte to 1 KiB of device, mapped and
 * pinned memory, disabled before the first launch or after one. Fills of 1 MiB and of several rows
 * keep the order while they are disabled, and so do kernels and copies. A fill that writes
 * elsewhere instead keeps it, too: so the server disables fills of one row (graph_switch.h). H200,
 * driver 580.159.04. (graph_random.c)
 *
 * The driver leaks 1.6 MiB of host memory with each green context that is made and ended.
 * (driver_growth.c)
 *
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
