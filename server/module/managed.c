/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables of __managed__: measured, placed in the client's pinned memory, found by name. A
 * worker.
 *
 * Invariant: no code of a library has run before it is reloaded, and the client has no
 * address in it. So the reload cannot be noticed.
 */

#include "managed.h"

#include <stdatomic.h>

#include "cubin.h"
#include "kernel.h"
#include "library.h"
#include "library_load.h"
#include "machine_code.h"
#include "placement.h"
#include "server/session/fault.h"
#include "server/session/recorded.h"
#include "server/session/session.h"
#include "server/schedule/deferred.h"
#include "server/share/session_device.h"
#include "server/memory/host.h"
#include "do_module.h"

/* Larger images are libraries, which have no such variables. */
#define LOOK_MAX (4u << 20)

struct managed {
	/* Unloads the original library; or the reloaded one, if that was not used. */
	struct deferred deferred;
	struct cubin cubin; /* the driver reads its bytes after it was placed */
	uint64_t size;      /* the size that the client got */
	uint64_t address;   /* 0: not placed yet */
	bool is_made;       /* made from PTX */
};

void managed_free(struct managed *managed)
{
	if (!managed)
		return;
	cubin_fini(&managed->cubin);
	account_free(managed);
}

uint64_t managed_size(const struct managed *managed)
{
	return managed && managed->address ? managed->size : 0;
}

const uint8_t *managed_code(const struct managed *managed, size_t *ret_size)
{
	*ret_size = managed->cubin.size;
	return managed->cubin.bytes;
}

static void on_discarded(struct deferred *deferred)
{
	managed_free(container_of(deferred, struct managed, deferred));
}

/* The driver reads `real' from its bytes until it has unloaded it. */
static void managed_discard(struct library *library, CUlibrary real)
{
	struct managed *managed = library->managed;

	library->managed = NULL;
	managed->deferred.library = real;
	managed->deferred.on_done = on_discarded;
	deferred_add(&managed->deferred);
}

static CUresult result_of(int r)
{
	switch (r) {
	case 0:
		return CUDA_SUCCESS;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -ENOEXEC:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case -EBADMSG:
		return CUDA_ERROR_INVALID_IMAGE;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* Gets the machine code of the image, or makes it from its PTX. */
static CUresult read_code(const struct library *library, const struct device *device, bool is_made,
	struct cubin *ret_cubin)
{
	const struct image *image = library->deferred.image;
	uint8_t *bytes = NULL;
	size_t size;
	CUresult result = is_made ? machine_code_make(image, device, NULL, &bytes, &size)
				  : result_of(machine_code_find(image, device, &bytes, &size));

	if (result != CUDA_SUCCESS)
		return result;
	result = result_of(cubin_read(bytes, size, ret_cubin));
	if (result != CUDA_SUCCESS)
		free(bytes);
	return result;
}

static bool may_replace(const struct library *library)
{
	return !library->is_used && library->n_users == 0;
}

static bool managed_look(const struct image *image, const struct device *device)
{
	struct cubin cubin;
	uint8_t *bytes;
	size_t size;
	bool has_some;

	if (machine_code_find(image, device, &bytes, &size) < 0)
		return machine_code_would_mention(image, ".attribute(.managed)");
	if (cubin_read(bytes, size, &cubin) < 0) {
		free(bytes);
		return false;
	}
	has_some = cubin.n_variables > 0;
	cubin_fini(&cubin);
	return has_some;
}

bool managed_come_first(struct library *library, const struct device *device)
{
	enum {
		UNKNOWN,
		NO,
		YES
	};
	struct image *image = library->deferred.image;
	unsigned known = atomic_load_explicit(&image->has_managed, memory_order_relaxed);

	if (library->managed || library->keeps_managed || !may_replace(library))
		return false;
	if (known == UNKNOWN) {
		uint64_t size = machine_code_most(image, false);

		/* The image cannot be searched now, so the answer stays unknown. */
		if (!account_keep(library, size))
			return false;
		known = image->size <= LOOK_MAX && managed_look(image, device) ? YES : NO;
		account_unkeep(library, size);
		atomic_store_explicit(&image->has_managed, known, memory_order_relaxed);
	}
	return known == YES;
}

/* Replaces the charge for reading it. */
static bool pay_for_code(struct managed *managed, uint64_t paid)
{
	uint64_t size = managed->cubin.size +
			managed->cubin.n_variables * sizeof(struct cubin_variable) +
			KEPT_CODE(managed->cubin.size);

	account_unkeep(managed, paid);
	return account_keep(managed, size);
}

static CUresult managed_new(struct session *session, const struct library *library,
	const struct device *device, bool is_made, struct managed **ret_managed)
{
	uint64_t paid = machine_code_most(library->deferred.image, is_made);
	struct managed *managed = account_alloc(session->account, sizeof(*managed), paid);
	CUresult result;

	if (!managed)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = read_code(library, device, is_made, &managed->cubin);
	if (result == CUDA_SUCCESS && managed->cubin.n_variables == 0)
		result = CUDA_ERROR_NOT_FOUND;
	if (result == CUDA_SUCCESS && !pay_for_code(managed, paid))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		managed_free(managed);
		return result;
	}
	managed->size = managed->cubin.total;
	managed->is_made = is_made;
	*ret_managed = managed;
	return CUDA_SUCCESS;
}

static CUresult managed_measure(
	struct session *session, struct library *library, const struct device *device)
{
	CUresult result;

	if (library->managed)
		return CUDA_SUCCESS;
	result = managed_new(session, library, device, false, &library->managed);
	if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
		result = managed_new(session, library, device, true, &library->managed);
	return result;
}

CUresult do_managed_measure(
	struct session *session, struct library *library, uint32_t device, uint64_t *ret_size)
{
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!may_replace(library))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = managed_measure(session, library, sdev->device);
	if (result == CUDA_SUCCESS) {
		*ret_size = library->managed->size;
		return CUDA_SUCCESS;
	}
	library->keeps_managed = true;
	if (result != CUDA_ERROR_NOT_FOUND)
		library_log_refusal(session, library, result);
	return result;
}

/* ---- reloading */

/*
 * Whether the driver finds as many kernels in the code as in the image. If not, it has
 * chosen other code.
 */
static CUresult managed_compare(CUlibrary real, CUlibrary before)
{
	unsigned n = 0, n_before = 0;
	CUresult result = cuda.cuLibraryGetKernelCount(&n, real);

	if (result == CUDA_SUCCESS)
		result = cuda.cuLibraryGetKernelCount(&n_before, before);
	return result == CUDA_SUCCESS && n != n_before ? CUDA_ERROR_NO_BINARY_FOR_GPU : result;
}

/* On failure the library has no placed or measured variables. */
static CUresult load_placed(struct library *library, uint64_t address, CUlibrary *ret_real)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	struct managed *managed = library->managed;
	void *option_value = (void *)1;
	CUresult result = result_of(cubin_place(&managed->cubin, address, managed->size));

	if (result == CUDA_SUCCESS)
		result = cuda.cuLibraryLoadData(
			ret_real, managed->cubin.bytes, NULL, NULL, 0, &option, &option_value, 1);
	if (result != CUDA_SUCCESS) {
		managed_free(managed);
		library->managed = NULL;
		return result;
	}
	/* The driver can run code that it has made itself. */
	result = managed->is_made ? CUDA_SUCCESS
				  : managed_compare(*ret_real, library->deferred.library);
	if (result != CUDA_SUCCESS)
		managed_discard(library, *ret_real);
	return result;
}

/* This driver may be unable to run the cubin in the image. */
static CUresult managed_load(struct session *session, struct library *library,
	const struct device *device, uint64_t address, CUlibrary *ret_real)
{
	const struct managed before = *library->managed;
	CUresult refusal = load_placed(library, address, ret_real), result;

	if (refusal == CUDA_SUCCESS || before.is_made || result_is_fault(refusal))
		return refusal;
	result = managed_new(session, library, device, true, &library->managed);
	if (result != CUDA_SUCCESS)
		return result == CUDA_ERROR_NO_BINARY_FOR_GPU ? refusal : result;
	library->managed->size = before.size;
	return load_placed(library, address, ret_real);
}

static CUresult find_kernel(struct kernel *kernel, CUlibrary real)
{
	const char *name = NULL;
	CUresult result = cuda.cuKernelGetName(&name, kernel->real);

	return result == CUDA_SUCCESS ? cuda.cuLibraryGetKernel(&kernel->next_real, real, name)
				      : result;
}

/*
 * Looks up again, in `real', the kernels that were found before, which were not launched.
 * All or none are replaced.
 */
static CUresult find_again(struct library *library, CUlibrary real)
{
	CUresult result = CUDA_SUCCESS;
	struct kernel *kernel;

	for (kernel = library->kernels; kernel && result == CUDA_SUCCESS; kernel = kernel->next)
		result = find_kernel(kernel, real);
	if (result != CUDA_SUCCESS)
		return result;
	for (kernel = library->kernels; kernel; kernel = kernel->next)
		kernel_replace(kernel);
	return CUDA_SUCCESS;
}

static void on_replaced(_unused_ struct deferred *deferred)
{
}

/*
 * The original is unloaded before the library, which owns the reloaded one, because deferred
 * calls keep their order.
 */
static CUresult managed_replace(struct session *session, struct library *library, CUlibrary real)
{
	struct deferred *deferred = &library->managed->deferred;
	CUresult result = find_again(library, real);

	if (result != CUDA_SUCCESS) {
		managed_discard(library, real);
		return result;
	}
	deferred->library = library->deferred.library;
	deferred->on_done = on_replaced;
	library->deferred.library = real;
	library->loaded_on = 0;
	/* Without code yet, places that are kept stay. */
	if (!recorded_is_replay(session))
		placements_end(session, library);
	deferred_add(deferred);
	return CUDA_SUCCESS;
}

CUresult do_managed_bind(
	struct session *session, struct library *library, uint32_t device, uint64_t address)
{
	const struct managed *managed = library->managed;
	struct session_device *sdev;
	CUlibrary real;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!managed || managed->address || !host_has(session, address, managed->size))
		return CUDA_ERROR_INVALID_VALUE;
	if (!may_replace(library))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = managed_load(session, library, sdev->device, address, &real);
	if (result == CUDA_SUCCESS)
		result = managed_replace(session, library, real);
	if (result != CUDA_SUCCESS) {
		library->keeps_managed = true;
		library_log_refusal(session, library, result);
		return result;
	}
	/* A replay finds the values there. */
	if (!recorded_is_replay(session))
		cubin_initialise(&library->managed->cubin, (uint8_t *)(uintptr_t)address);
	library->managed->address = address;
	return CUDA_SUCCESS;
}

CUresult do_managed_find(_unused_ struct session *session, struct library *library,
	const char *name, uint64_t *ret_address, uint64_t *ret_size)
{
	const struct managed *managed = library->managed;
	const struct cubin_variable *variable;

	if (!managed || !managed->address)
		return CUDA_ERROR_INVALID_VALUE;
	variable = cubin_find(&managed->cubin, name);
	if (!variable)
		return CUDA_ERROR_NOT_FOUND;
	*ret_address = managed->address + variable->offset;
	*ret_size = variable->size;
	return CUDA_SUCCESS;
}
