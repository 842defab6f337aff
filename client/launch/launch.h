/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_H
#define LAUNCH_H

/*
 * The parameters of a launch, on a stream or in a graph node, and the checks that
 * the driver makes at the call. Any thread.
 */

#include "client/module/library.h"

struct event;

/* The attributes of a launch that the server must know; the bits are those of launch_with. */
struct launch_attrs {
	uint32_t attr_mask;
	uint32_t cluster[3];
	uint32_t cluster_policy;
	int32_t priority;
};

/* The events that a launch records while its kernel runs; NULL: none. */
struct launch_events {
	struct event *programmatic; /* when all blocks have triggered it, or ended */
	struct event *completion;   /* when all blocks have begun */
};

/* Attributes that have no effect for a client; for queries of graph nodes, but for the last two. */
struct launch_hints {
	CUaccessPolicyWindow window;
	CUlaunchMemSyncDomainMap domains;
	unsigned carveout;
	uint32_t preferred_cluster[3]; /* zeros: none */
	bool is_of_node;               /* has an attribute that only a captured launch may have */
};

/* Those of a launch without such attributes. */
#define LAUNCH_HINTS_NONE ((struct launch_hints){.domains = {.remote = 1}})

struct launch {
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes;
	CUstream stream; /* unused for a node, as are the last two members */
	struct launch_attrs attrs;
	const struct launch_events *events; /* NULL: none */
	const struct launch_hints *hints;   /* NULL: none */
};

/* Reads CUDA_LAUNCH_BLOCKING, as the driver does in cuInit(). */
void launch_init(void);

/* kernel_calls.c: where a parameter is. `ret_size' may be NULL. */
CUresult kernel_param(struct kernel *kernel, size_t index, size_t *ret_offset, size_t *ret_size);

/* A function knows only whether larger clusters are allowed; a kernel keeps the number. */
int kernel_function_value(CUfunction_attribute attrib, int value);

CUresult launch_check(
	const struct launch *launch, struct kernel *kernel, const struct device *device);

/* Fills in kernel->param_bytes bytes from whichever of the two lists is not NULL. */
CUresult launch_params(const struct kernel *kernel, void *const *kernelParams, void *const *extra,
	uint8_t *ret_params);

/* `events' NULL: the attribute is of a graph node, which does not have all of them. */
CUresult launch_attribute_read(CUlaunchAttributeID name, const CUlaunchAttributeValue *value,
	struct launch_attrs *attrs, struct launch_hints *hints, struct launch_events *events);

/* legacy_launch.c: the settings of a function, created at its first use in a context. */
CUresult legacy_launch_find(CUfunction function, struct legacy_launch **ret_legacy);

#endif
