/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_H
#define COPY_H

/* What linear copies, boxes and graph nodes share. All under the driver's lock. */

#include "tests/softgpu/driver/stream/work.h"

/* How a call names an end of a copy; END_ANY: by a pointer of either kind. */
enum copy_end {
	END_DEVICE,
	END_HOST,
	END_ANY,
};

/*
 * Finds the kind of memory at both ends of a copy, and that all of it exists. An
 * end may be pageable memory only if the call names it as the host's.
 */
CUresult copy_classify(struct copy_work *copy, bool is_dst_host, bool is_src_host);

/* Whether both ends are host memory, by pointers of either kind. */
bool copy_is_on_host(const struct copy_work *copy);

/* Classifies and submits. An asynchronous copy still waits for its pageable memory. */
CUresult copy_submit(struct copy_work *copy, CUstream handle, bool is_async, enum copy_end dst,
	enum copy_end src);

/* Before a copy between contexts. */
CUresult copy_peer_check(CUstream handle);

/* A box, of memory or arrays. */
CUresult copy_submit_3d(const CUDA_MEMCPY3D *params, CUstream handle, bool is_async);

/* For graph nodes and batches. */
CUresult copy_work_3d(const CUDA_MEMCPY3D *params, struct work *ret_work);
/* Whether the order says when a copy of a batch may read its source. */
bool batch_order_is_known(CUmemcpySrcAccessOrder order);

/* Whether all memory that a fill will write exists. */
bool fill_is_in_range(const struct fill_work *fill);

CUresult fill_work_2d(const CUDA_MEMSET_NODE_PARAMS *params, struct work *ret_work);

#endif
