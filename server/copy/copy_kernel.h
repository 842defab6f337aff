/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_KERNEL_H
#define COPY_KERNEL_H

/*
 * The kernel that copies a box within host memory for a graph. Some drivers make the launch
 * of a graph wait until its nodes that copy within host memory are done (580 does, and holds
 * locks meanwhile). They do not wait for a kernel.
 */

#include "copy.h"

/* Its PTX, the only image that the server loads for itself. */
extern const char copy_kernel_image[];

/* The parameters of the kernel, in the order of its PTX. */
struct copy_kernel_params {
	uint64_t dst, src;
	uint64_t dst_pitch, src_pitch; /* from row to row */
	uint64_t dst_slice, src_slice; /* from slice to slice */
	uint64_t width;                /* of a row, in units */
	uint64_t height;
	uint64_t n_units; /* in all */
};

/* A launch of the kernel as a node. It points into itself, so it must not move. */
struct copy_kernel_launch {
	CUDA_KERNEL_NODE_PARAMS_v2 node;
	struct copy_kernel_params params;
	struct kernel_extra extra;
};

/*
 * How to copy that box with the kernel, on the GPU whose context is current. Both ends are
 * within host memory, and checked. CUDA_ERROR_NOT_SUPPORTED: the kernel was not loaded.
 */
CUresult copy_kernel_make(const struct box_end *dst, const struct box_end *src,
	const struct box_size *size, struct copy_kernel_launch *ret_launch);

#endif
