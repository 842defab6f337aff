/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_H
#define LAUNCH_H

/*
 * Launches: a kernel, its shape and its arguments as a piece of work. All under
 * the driver's lock.
 */

#include "tests/softgpu/driver/stream/work.h"

/* Shared memory of a block, in bytes. */
#define SHARED_DEFAULT 49152
#define SHARED_MAX 232448

struct context;
struct event;
struct green;

/* A launch as the caller describes it. */
struct launch {
	CUfunction function;
	uint32_t grid[3];
	uint32_t cluster[3];           /* blocks of a cluster; 0: not set */
	uint32_t preferred_cluster[3]; /* 0: not set */
	uint32_t block[3];
	uint32_t shared_dynamic;
	bool is_cooperative;
	bool is_serialized; /* programmatic stream serialization */
	bool triggers_at_start;
	bool is_of_node; /* has an attribute that only a captured launch may have */
	struct kernel_hints hints;
	struct event *programmatic, *completion; /* that it records; NULL: none */
	void **params;                           /* either these, or `extra' */
	void **extra;
};

/* Checks a launch and copies its arguments. It runs on the SMs of `green'; NULL: on all SMs. */
CUresult launch_work(const struct launch *launch, struct context *context, struct green *green,
	struct work *ret_work);

/* All blocks of a cooperative launch must fit on its SMs at once, or it is refused. */
CUresult launch_fits(const struct kernel_work *kernel);

/* Keeps an attribute that has no effect. CUDA_ERROR_NOT_FOUND: it has one, or does not exist. */
CUresult launch_hint(
	struct kernel_hints *hints, CUlaunchAttributeID name, const CUlaunchAttributeValue *value);

/* Puts a launch into a stream. */
CUresult launch_push(const struct launch *launch, CUstream handle);

/* How many blocks of this shape fit on an SM at once; 0 if none fits. */
CUresult launch_occupancy(
	CUfunction function, uint32_t block_size, size_t dynamic, int *ret_blocks);

/* Writes the output of kernels to standard output, when a program synchronises. */
void print_flush(void);

#endif
