/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COUNTERS_H
#define COUNTERS_H

/*
 * What a client has done since it came. Servers count and daemons report. All counters only
 * rise.
 */

enum counter {
	COUNTER_LAUNCHES,       /* kernels, without those of graphs */
	COUNTER_GRAPH_LAUNCHES, /* executable graphs */
	COUNTER_BATCHES,        /* groups of launches that the driver got in one call */
	COUNTER_COPIES_IN,      /* from host memory to a GPU; a large copy counts by its pieces */
	COUNTER_BYTES_IN,       /* bytes of these copies */
	COUNTER_COPIES_OUT,     /* from a GPU to host memory */
	COUNTER_BYTES_OUT,
	COUNTER_COPIES_WITHIN, /* between two places of GPUs, or of pinned memory */
	COUNTER_BYTES_WITHIN,
	COUNTER_FILLS,
	COUNTER_WAITS,   /* sleeps of a thread until a GPU has reached a point */
	COUNTER_ERRORS,  /* calls that returned an error; "not ready" is no error */
	COUNTER_BUSY,    /* nanoseconds with work on a GPU, sampled */
	COUNTER_YIELDED, /* nanoseconds of a whole GPU that were left to clients in the foreground
			  */
	COUNTER_MOVES,   /* how often memory has left GPUs */
	COUNTER_AWAY,    /* nanoseconds in which memory was away from GPUs */
	COUNTERS,
};

#endif
