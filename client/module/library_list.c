/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kernels of a library. Any thread of the application.
 *
 * Invariant: kernels are listed in the order of the server's driver, with the same
 * handles as when they are requested by name.
 */

#include <string.h>

#include "calls_module.h"
#include "library.h"
#include "send_module.h"

#define NAMES_BYTES 12288

CUresult library_each(struct library *library, unsigned n_max,
	CUresult (*visit)(struct library *library, const char *name, unsigned i, void *arg),
	void *arg, unsigned *ret_n)
{
	_cleanup_free_ char *names = malloc(NAMES_BYTES);
	uint32_t n = 0, count = 0, size = 0;

	if (!names)
		return CUDA_ERROR_OUT_OF_MEMORY;
	do {
		CUresult result = send_library_names(
			library_id(library), n, &count, (uint8_t *)names, NAMES_BYTES, &size);

		/* Several names, each followed by a NUL. */
		if (result == CUDA_SUCCESS && n < count && (size == 0 || names[size - 1] != 0))
			result = CUDA_ERROR_MPS_RPC_FAILURE;
		for (const char *name = names;
			result == CUDA_SUCCESS && name < names + size && n < MIN(count, n_max);
			name += strlen(name) + 1)
			result = visit(library, name, n++, arg);
		if (result != CUDA_SUCCESS)
			return result;
	} while (n < MIN(count, n_max));
	*ret_n = n;
	return CUDA_SUCCESS;
}

static CUresult note_kernel(struct library *library, const char *name, unsigned i, void *arg)
{
	struct kernel **kernels = arg;

	return library_kernel(library, name, &kernels[i]);
}

CUresult library_count(struct library *library, unsigned *ret_count)
{
	uint8_t none[1];
	uint32_t size = 0;

	return send_library_names(library_id(library), UINT32_MAX, ret_count, none, 0, &size);
}

/* Its first `n_max' kernels in the driver's order, or all kernels if it has fewer. */
static CUresult list_get(struct library *library, void **handles, unsigned n_max, unsigned *ret_n)
{
	*ret_n = 0;
	return n_max > 0 ? library_each(library, n_max, note_kernel, handles, ret_n) : CUDA_SUCCESS;
}

CUresult local_cuLibraryEnumerateKernels(
	CUkernel *kernels, unsigned int numKernels, struct library *library)
{
	unsigned n;

	return list_get(library, (void **)kernels, numKernels, &n);
}

CUresult local_cuModuleEnumerateFunctions(
	CUfunction *functions, unsigned int numFunctions, struct library *library)
{
	unsigned n = 0;
	CUresult result = list_get(library, (void **)functions, numFunctions, &n);

	/* The handles replace the addresses of the kernels in the same array. */
	for (unsigned i = 0; result == CUDA_SUCCESS && i < n; i++)
		functions[i] = kernel_function((struct kernel *)functions[i]);
	return result;
}
