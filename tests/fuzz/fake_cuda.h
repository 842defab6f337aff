/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

/*
 * A driver for tests of the server that only counts. It aborts on requests that the
 * server must never make: unmapped memory, an object that does not exist, a second
 * free. Work is done at once; only write-values really write. Any thread.
 */

#include <stdbool.h>
#include <stdint.h>

#define FAKE_MEMORY (8ull << 30) /* of the one GPU */
#define FAKE_PARAM_BYTES 24      /* of every kernel: 8, 4, 4 (padding), 8 */
#define FAKE_GLOBAL_SIZE 256     /* of every library's variable */
#define FAKE_SMS 32u             /* in four groups of eight */
#define FAKE_LINE_MAX (1u << 27) /* elements of a texture on memory without rows */

/* Live objects; all zero again when everything was freed. */
struct fake_counts {
	int contexts, streams, events, libraries, reservations, allocations, mappings;
	int registrations, graphs, execs, arrays, textures, linkers, greens;
};

/* Switches for tests. */
struct fake_switches {
	bool is_busy;          /* streams report that they are not done */
	uint64_t memory;       /* bytes that cuMemCreate() may allocate; FAKE_MEMORY at first */
	uint64_t blocked;      /* an address that cuMemAddressReserve() never returns */
	unsigned fail_next;    /* CUresult of the next call that can fail; 0: none */
	uint64_t stack_max;    /* the largest stack of a thread; 0: no maximum */
	unsigned fixed_limits; /* a bit for each CUlimit that cannot be changed any more */
	bool is_plain;         /* no memory is compressed, even on request */
};

/* Calls since the start. */
struct fake_calls {
	unsigned launches, graph_launches, copies, fills, waits, write_values, synchronizations,
		limits_set, accesses_set, green_creates;
	uint64_t queued, most_queued; /* bytes of copies between two queries of streams */
	unsigned remote_launches;     /* in the remote domain of memory synchronisation */
	unsigned launch_events;       /* recorded by launches */
	unsigned programmatic_edges;
	unsigned nodes_set_green;      /* nodes of graphs, in the context of a green context */
	unsigned exec_nodes_set_green; /* ... of executable graphs */
	uint32_t last_param_sum;       /* of the bytes of the last kernel's parameters */
	uint64_t last_texture_size;    /* bytes of the last texture on memory without rows */
};

extern struct fake_counts fake_counts;
extern struct fake_switches fake_switches;
extern struct fake_calls fake_calls;

/* The same while other threads work. */
struct fake_counts fake_counts_now(void);
void fake_set_memory(uint64_t bytes);

/* Fills the server's `cuda' and registers its devices. Once per process. */
void fake_cuda_start(void);

#endif
