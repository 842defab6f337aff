/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lists the kernels in a library. A worker.
 *
 * Invariant: an answer contains only whole names, in the driver's order.
 */

#include <string.h>

#include "library.h"
#include "server/session/session.h"
#include "server/share/session_device.h"

/* Puts names from `first' on into `names', as many as fit. */
static CUresult put_names(CUkernel *kernels, uint32_t n, uint32_t first, uint8_t *names,
	uint32_t n_max, uint32_t *ret_size)
{
	uint32_t size = 0;

	for (uint32_t i = first; i < n; i++) {
		const char *name = NULL;
		CUresult result = cuda.cuKernelGetName(&name, kernels[i]);
		size_t length;

		if (result != CUDA_SUCCESS)
			return result;
		length = strlen(name) + 1;
		if (length > WIRE_NAME_MAX_BYTES)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (length > n_max - size)
			break;
		memcpy(names + size, name, length);
		size += (uint32_t)length;
	}
	*ret_size = size;
	return CUDA_SUCCESS;
}

CUresult do_library_names(struct session *session, struct library *library, uint32_t first,
	uint32_t *ret_count, uint8_t *names, uint32_t n_names_max, uint32_t *ret_n_names)
{
	_cleanup_account_ CUkernel *kernels = NULL;
	unsigned count = 0;
	CUresult result = CUDA_SUCCESS;

	if (session->current)
		result = session_device_enter(session, session->current);
	if (result == CUDA_SUCCESS)
		result = cuda.cuLibraryGetKernelCount(&count, library->deferred.library);
	*ret_count = count;
	*ret_n_names = 0;
	if (result != CUDA_SUCCESS || first >= count)
		return result;
	kernels = account_alloc(session->account, count * sizeof(CUkernel), 0);
	if (!kernels)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuda.cuLibraryEnumerateKernels(kernels, count, library->deferred.library);
	return result == CUDA_SUCCESS
		       ? put_names(kernels, count, first, names, n_names_max, ret_n_names)
		       : result;
}
