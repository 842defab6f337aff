/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: the newest form of a function that the caller's version knows.
 * A fixed table; runs in any thread.
 */

#include "procs.h"

#include "driver.h"

#include <string.h>

#define FLAGS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/* A caller that requests per-thread forms gets no plain form of a name that has them. */
static bool wants_per_thread(const char *name, cuuint64_t flags)
{
	if (!(flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
		return false;
	for (size_t i = 0; i < n_procs; i++)
		if (procs[i].is_per_thread && strcmp(procs[i].name, name) == 0)
			return true;
	return false;
}

static CUdriverProcAddressQueryResult lookup(
	const char *name, int version, cuuint64_t flags, void **ret_address)
{
	const bool is_per_thread = wants_per_thread(name, flags);
	const struct proc *best = NULL;
	bool is_known = false;

	for (size_t i = 0; i < n_procs; i++) {
		const struct proc *proc = &procs[i];

		if (proc->is_per_thread != is_per_thread || strcmp(proc->name, name) != 0)
			continue;
		is_known = true;
		if (proc->version <= version && (!best || best->version < proc->version))
			best = proc;
	}
	*ret_address = best ? best->address : NULL;
	if (best)
		return CU_GET_PROC_ADDRESS_SUCCESS;
	return is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
			: CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
	CUdriverProcAddressQueryResult *symbolStatus)
{
	CUdriverProcAddressQueryResult status;

	ENTER(CALL_ANYTIME);
	if (!symbol || !pfn || cudaVersion > DRIVER_VERSION || (flags & ~(cuuint64_t)FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	status = lookup(symbol, cudaVersion, flags, pfn);
	if (symbolStatus)
		*symbolStatus = status;
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	ENTER(CALL_ANYTIME);
	if (!symbol || !pfn || cudaVersion > DRIVER_VERSION || (flags & ~(cuuint64_t)FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	return lookup(symbol, cudaVersion, flags, pfn) == CU_GET_PROC_ADDRESS_SUCCESS
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_NOT_FOUND;
}
