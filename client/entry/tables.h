/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TABLES_H
#define TABLES_H

/*
 * The private tables of cuGetExportTable(), as far as NVIDIA's own libraries need
 * them. tables.c uses public driver calls and the host_ functions below. Two
 * programs provide these: the client library, and the software GPU for programs
 * that run on it directly. So tables.c and init.c, which looks tables up, call each other.
 */

#include "client/util/api.h"
#include "client/context/storage.h"

/* No GPU has as many. */
#define TOPOLOGY_PAIRS 256u

/* Unknown tables give CUDA_ERROR_INVALID_VALUE and NULL, as in the driver. */
CUresult tables_find(const void **ret_table, const CUuuid *id);

/* The primary context of a device, without retaining it. Or CUDA_ERROR_INVALID_DEVICE. */
CUresult host_primary(CUdevice device, CUcontext *ret_context);

/* Whether it is the context of a green context, which then belongs to a primary context. */
bool host_green(CUcontext context, CUcontext *ret_primary);

/*
 * The storage of a context; NULL is the current context. A green context has that of its primary
 * context.
 * CUDA_ERROR_INVALID_CONTEXT: there is no such context, or it is not active.
 * CUDA_ERROR_CONTEXT_IS_DESTROYED: it was a green context.
 */
CUresult host_storage(CUcontext context, struct storage **ret_storage);

/*
 * Where the SMs of the current context's GPU are: for each pair of SMs, in the order of their
 * numbers, its GPC and its number in the GPC. CUDA_ERROR_NOT_SUPPORTED: the driver does not say it.
 */
struct topology {
	unsigned n; /* pairs */
	uint8_t gpcs[TOPOLOGY_PAIRS], numbers[TOPOLOGY_PAIRS];
};

CUresult host_topology(struct topology *ret_topology);

#endif
