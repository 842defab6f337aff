/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private tables, for programs that run on the software GPU alone.
 *
 * The tables, the answer to the runtime's integrity check with its MD2, and the
 * storage of contexts are the client library's code (tables.c, integrity.c,
 * md2.c, storage.c). Sharing them hides no fault: the client library answers
 * cuGetExportTable() itself, and no test compares its answer with one from here,
 * except the places of SMs, which the client has from the server's driver.
 * NVIDIA's code decides instead. The runtime in each example program refuses
 * every call after a wrong answer to the integrity check; test_runtimes.py runs
 * other versions of the runtime, and tests/gpu the libraries that use the other
 * tables. Besides, tests/unit/client/test_md2.c has the vectors of RFC 1319, and
 * test_storage.c results of a real driver.
 *
 * Runs in any thread. The tables call public entry points, so the driver's
 * lock is not held around them.
 */

#include "client/entry/tables.h"
#include "tests/softgpu/driver/sms.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/current.h"
#include "tests/softgpu/driver/stream/green.h"

#define GPCS 8u

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	CUresult result = call_enter(__func__, CALL_ANYTIME);

	call_leave(&result);
	return result == CUDA_SUCCESS ? tables_find(ppExportTable, pExportTableId) : result;
}

CUresult host_primary(CUdevice dev, CUcontext *ret_context)
{
	ENTER(CALL_INIT);
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_context = (CUcontext)device_get(dev)->primary;
	return CUDA_SUCCESS;
}

bool host_green(CUcontext handle, CUcontext *ret_primary)
{
	CUresult result = call_enter(__func__, CALL_ANYTIME);
	const struct green *green = green_of_context(handle);

	if (green)
		*ret_primary = (CUcontext)green->context;
	call_leave(&result);
	return green != NULL;
}

CUresult host_storage(CUcontext handle, struct storage **ret_storage)
{
	struct context *context;

	ENTER(CALL_INIT);
	/* Only of the current context is it known that it has ended. */
	if (context_get(handle, &context) != CUDA_SUCCESS)
		return current_top() && (!handle || handle == current_top())
			       ? CUDA_ERROR_CONTEXT_IS_DESTROYED
			       : CUDA_ERROR_INVALID_CONTEXT;
	if (!context->is_active)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_storage = &context->storage;
	return CUDA_SUCCESS;
}

_Static_assert(SMS_MAX / 2 <= TOPOLOGY_PAIRS, "all fit");

/* The SMs are spread over GPCS GPCs, of which the last ones have fewer. */
CUresult host_topology(struct topology *ret_topology)
{
	ENTER(CALL_CONTEXT);
	ret_topology->n = driver.n_sms / 2;
	for (unsigned i = 0; i < ret_topology->n; i++) {
		ret_topology->gpcs[i] = (uint8_t)(i % GPCS);
		ret_topology->numbers[i] = (uint8_t)(i / GPCS);
	}
	return CUDA_SUCCESS;
}
