/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kernels of a library. Any thread of the application.
 *
 * Invariant: kernels are listed in the order of the server's driver, with the same
 * handles as when they are requested by name.
 */

#include <string.h>

#include "client.h"
#include "library.h"
#include "send.h"

#define NAMES_BYTES 12288

struct listing {
	struct library *library;
	CUresult (*visit)(struct library *library, const char *name, unsigned i, void *arg);
	void *arg;
	unsigned n, n_max;
};

/* Several names, each followed by a NUL. */
static CUresult visit_names(struct listing *listing, const char *names, uint32_t size)
{
	const char *end = names + size;

	if (size == 0 || end[-1] != 0)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	for (; names < end && listing->n < listing->n_max; names += strlen(names) + 1) {
		CUresult result = listing->visit(listing->library, names, listing->n, listing->arg);

		if (result != CUDA_SUCCESS)
			return result;
		listing->n++;
	}
	return CUDA_SUCCESS;
}

CUresult library_each(struct library *library, unsigned n_max,
	CUresult (*visit)(struct library *library, const char *name, unsigned i, void *arg),
	void *arg, unsigned *ret_n)
{
	struct listing listing = {library, visit, arg, 0, n_max};
	_cleanup_free_ uint8_t *names = malloc(NAMES_BYTES);
	uint32_t count = 0, size = 0;

	if (!names)
		return CUDA_ERROR_OUT_OF_MEMORY;
	do {
		CUresult result = send_library_names(
			library_id(library), listing.n, &count, names, NAMES_BYTES, &size);

		if (result == CUDA_SUCCESS && listing.n < count)
			result = visit_names(&listing, (const char *)names, size);
		if (result != CUDA_SUCCESS)
			return result;
	} while (listing.n < MIN(count, n_max));
	*ret_n = listing.n;
	return CUDA_SUCCESS;
}

static CUresult note_kernel(struct library *library, const char *name, unsigned i, void *arg)
{
	struct kernel **kernels = arg;

	return library_kernel(library, name, &kernels[i]);
}

CUresult library_list(
	struct library *library, unsigned n_max, struct kernel **kernels, unsigned *ret_n)
{
	return library_each(library, n_max, note_kernel, kernels, ret_n);
}

CUresult library_count(struct library *library, unsigned *ret_count)
{
	uint8_t none[1];
	uint32_t size = 0;

	return send_library_names(library_id(library), UINT32_MAX, ret_count, none, 0, &size);
}

/* The handles replace the addresses of the kernels in the same array. */
static CUresult list_get(struct library *library, void **handles, unsigned n_max, unsigned *ret_n)
{
	*ret_n = 0;
	return n_max > 0 ? library_list(library, n_max, (struct kernel **)handles, ret_n)
			 : CUDA_SUCCESS;
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

	for (unsigned i = 0; result == CUDA_SUCCESS && i < n; i++)
		functions[i] = kernel_function((struct kernel *)functions[i]);
	return result;
}
