/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBRARY_H
#define LIBRARY_H

/*
 * Libraries and modules, which are one thing here, and their kernels. A
 * CUlibrary and its CUmodule are the address of a struct library; a CUkernel is
 * that of a struct kernel, and its CUfunction an address within it, because
 * few calls take the one for the other. Any thread.
 */

#include "client/device/context.h"
#include "jit.h"
#include "client/util/slab.h"
#include "wire.h"

#define KERNEL_ATTRIBUTES 16

/* Where in a struct kernel its CUfunction points. */
#define FUNCTION_OFFSET 8

/* What calls of CUDA 3 have set of a function. */
struct legacy_launch;
void legacy_launch_free(struct legacy_launch *legacy);

struct kernel {
	_Alignas(2 * FUNCTION_OFFSET) struct slab_head slab;
	struct library *library;
	struct kernel *next; /* of the library */
	char *name;
	int32_t attributes[KERNEL_ATTRIBUTES]; /* each CUfunction_attribute */
	/* Known once kernel_measure() has succeeded. */
	uint32_t param_bytes;
	uint32_t n_params;
	uint32_t prints;
	struct param_layout *params;  /* atomic: NULL before */
	uint64_t occupancy;           /* atomic: what occupancy_blocks() learned last */
	struct legacy_launch *legacy; /* atomic: NULL before the first such call */
};

struct library {
	struct slab_head slab;
	struct context *context; /* of a module; NULL: a library of the process */
	pthread_mutex_t lock;    /* of the list of kernels, and of what is placed */
	struct kernel *kernels;
	uint32_t is_refused; /* atomic: it has variables that nobody placed (managed_variable.h) */
	uint32_t managed_device;
	uint64_t managed; /* where those of __managed__ begin; 0: not placed. Under the lock */
};

/* NULL: the handle names none. */
struct library *library_find(const void *handle);
struct kernel *kernel_find(const void *handle); /* as a CUkernel or a CUfunction */
struct kernel *kernel_find_kernel(CUkernel handle);
struct kernel *kernel_find_function(CUfunction handle);

static inline CUfunction kernel_function(struct kernel *kernel)
{
	return (CUfunction)((uint8_t *)kernel + FUNCTION_OFFSET);
}

uint32_t library_id(const struct library *library);
uint32_t kernel_id(const struct kernel *kernel);

/*
 * Copies the image to the server, which loads it. `context' as in struct
 * library. `jit' may be NULL; its logs are filled whatever the result.
 */
CUresult library_load(const void *image, struct context *context, const struct jit *jit,
	struct library **ret_library);
void library_unload(struct library *library);

/* The kernel of that name; asks the server once for each. CUDA_ERROR_NOT_FOUND. */
CUresult library_kernel(struct library *library, const char *name, struct kernel **ret_kernel);

CUresult kernel_ask_params(struct kernel *kernel);

/* Before its parameters are looked at: asks the server the first time. */
static inline CUresult kernel_measure(struct kernel *kernel)
{
	return likely(__atomic_load_n(&kernel->params, __ATOMIC_ACQUIRE) != NULL)
		       ? CUDA_SUCCESS
		       : kernel_ask_params(kernel);
}

/* How many kernels there are in it. */
CUresult library_count(struct library *library, unsigned *ret_count);

/* Calls `visit' with the names of its first `n_max' kernels in the driver's order, until an error.
 */
CUresult library_each(struct library *library, unsigned n_max,
	CUresult (*visit)(struct library *library, const char *name, unsigned i, void *arg),
	void *arg, unsigned *ret_n);

/* Its first `n_max' kernels in the driver's order; a library with fewer fills fewer. */
CUresult library_list(
	struct library *library, unsigned n_max, struct kernel **kernels, unsigned *ret_n);

/* Address and size of a variable on the current context's device; NULL for what is not wanted. */
CUresult library_global(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size);

/* Unloads the modules of a context that ends. */
void modules_end_context(struct context *context);

#endif
