/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TABLES_H
#define TABLES_H

/*
 * The private tables of cuGetExportTable(), as far as NVIDIA's own libraries
 * need them. tables.c uses public driver calls and the functions below that
 * begin with host_, which whoever links it provides: the client library, and
 * the software GPU for programs that run on it alone.
 */

#include "client/util/api.h"
#include "client/device/storage.h"

/* CUDA_ERROR_INVALID_VALUE and NULL for a table that there is none of, as the driver has it. */
CUresult tables_find(const void **ret_table, const CUuuid *id);

/* A device's primary context without retaining it. CUDA_ERROR_INVALID_DEVICE. */
CUresult host_primary(CUdevice device, CUcontext *ret_context);

/*
 * The storage of a context, NULL being the current one. Where there is none or
 * it is not active: CUDA_ERROR_INVALID_CONTEXT.
 */
CUresult host_storage(CUcontext context, struct storage **ret_storage);

#endif
