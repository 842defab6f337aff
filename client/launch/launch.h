/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_H
#define LAUNCH_H

/*
 * What a launch asks for, in a stream or as a node of a graph, and what the
 * driver refuses of it at the call. Any thread.
 */

#include "client/module/library.h"

/* Attributes of a launch that the server has to know; the bits are those of launch_with. */
struct launch_attrs {
	uint32_t attr_mask;
	uint32_t cluster[3];
	uint32_t cluster_policy;
	int32_t priority;
};

struct launch {
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes;
	CUstream stream; /* of no meaning for a node */
	struct launch_attrs attrs;
};

/* Reads CUDA_LAUNCH_BLOCKING, as the driver does in its cuInit(). */
void launch_init(void);

CUresult launch_check(
	const struct launch *launch, struct kernel *kernel, const struct device *device);

/* Fills kernel->param_bytes in, from whichever of the two is given. */
CUresult launch_params(const struct kernel *kernel, void *const *kernelParams, void *const *extra,
	uint8_t *ret_params);

/* Attributes of streams alone are refused for nodes of graphs. */
CUresult launch_attribute_read(CUlaunchAttributeID name, const CUlaunchAttributeValue *value,
	bool is_node, struct launch_attrs *attrs);

#endif
