/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuInit(), and the calls that a program may make before it. Any thread of the
 * application. They run under every route but the native one, so also without a
 * server: a program must reach cuInit() to learn what is wrong.
 *
 * Invariant: the server's page is read only under ROUTE_MPS. In a forked child it
 * is not mapped.
 */

#include <stdatomic.h>

#include "calls_entry.h"
#include "procs.h"
#include "tables.h"
#include "client/transport/route.h"
#include "client/context/context.h"
#include "client/module/eager.h"
#include "client/launch/launch.h"
#include "send_entry.h"

CUresult local_cuInit(unsigned int Flags)
{
	CUresult result;

	if (route_get() != ROUTE_MPS)
		return route_error();
	if (Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = devices_init();
	if (result != CUDA_SUCCESS)
		return result;
	eager_init();
	launch_init();
	route_set_initialised();
	return CUDA_SUCCESS;
}

CUresult local_cuDriverGetVersion(int *driverVersion)
{
	/* The version of the headers, for routes without a driver. */
	static _Atomic uint32_t version = CUDA_VERSION;

	if (route_get() == ROUTE_MPS)
		atomic_store_explicit(
			&version, shm_load32(&server.page->driver_version), memory_order_relaxed);
	*driverVersion = (int)atomic_load_explicit(&version, memory_order_relaxed);
	return CUDA_SUCCESS;
}

/*
 * A function newer than these headers does not exist here, but a newer driver must
 * accept its own version.
 */
static int known_version(int version)
{
	bool is_drivers = route_get() == ROUTE_MPS && version > CUDA_VERSION &&
			  (uint32_t)version <= shm_load32(&server.page->driver_version);

	return is_drivers ? CUDA_VERSION : version;
}

CUresult local_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
	cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	return proc_address(symbol, pfn, known_version(cudaVersion), flags, symbolStatus);
}

CUresult local_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult result = proc_address(symbol, pfn, known_version(cudaVersion), flags, NULL);

	/* The first version of this call cannot report it in another way. */
	if (result == CUDA_SUCCESS && !*pfn)
		return CUDA_ERROR_NOT_FOUND;
	return result;
}

CUresult local_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	return tables_find(ppExportTable, pExportTableId);
}

CUresult host_primary(CUdevice device, CUcontext *ret_context)
{
	const struct device *found = device_get(device);

	if (!found)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_context = (CUcontext)found->primary;
	return CUDA_SUCCESS;
}

bool host_green(CUcontext handle, CUcontext *ret_primary)
{
	const struct context *context = context_find(handle);

	if (!context || !context->home)
		return false;
	*ret_primary = (CUcontext)context->home;
	return true;
}

CUresult host_storage(CUcontext handle, struct storage **ret_storage)
{
	struct context *context = NULL;
	CUresult result = context_named(handle, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!context_is_active(context))
		return context->home ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
	*ret_storage = context->home ? &context->home->storage : &context->storage;
	return CUDA_SUCCESS;
}

_Static_assert(WIRE_TPCS_MAX <= TOPOLOGY_PAIRS, "all fit");

CUresult host_topology(struct topology *ret_topology)
{
	struct tpc tpcs[WIRE_TPCS_MAX];
	struct context *context;
	uint32_t n;
	CUresult result = context_enter(&context);

	if (result == CUDA_SUCCESS)
		result = send_device_topology(context->device->index, tpcs, ARRAY_SIZE(tpcs), &n);
	if (result != CUDA_SUCCESS)
		return result;
	ret_topology->n = n;
	for (uint32_t i = 0; i < n; i++) {
		ret_topology->gpcs[i] = tpcs[i].gpc;
		ret_topology->numbers[i] = tpcs[i].number;
	}
	return n > 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
