/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBRARY_H
#define LIBRARY_H

/*
 * Libraries, modules and their kernels. A library and a module are the same kind of
 * object here. A CUlibrary and its CUmodule are the address of a struct library. A
 * CUkernel is the address of a struct kernel, and its CUfunction an address within
 * it, because few calls accept one for the other. Any thread.
 */

#include <stdatomic.h>

#include "jit.h"
#include "lock.h"
#include "wire.h"
#include "client/util/slab.h"
#include "client/context/context.h"

#define KERNEL_ATTRIBUTES 16

/* The offset of a CUfunction in its struct kernel. */
#define FUNCTION_OFFSET 8

struct legacy_launch;

struct kernel {
	_Alignas(2 * FUNCTION_OFFSET) struct slab_head slab;
	struct library *library;
	struct kernel *next; /* of the library */
	char *name;
	int32_t attributes[KERNEL_ATTRIBUTES]; /* indexed by CUfunction_attribute */
	/* Valid after kernel_measure() has succeeded. */
	uint32_t param_bytes;
	uint32_t n_params;
	uint32_t prints;
	struct param_layout *_Atomic params; /* NULL before kernel_measure() */
	_Atomic uint64_t occupancy;          /* the last result of occupancy_blocks() */
	struct legacy_launch
		*_Atomic legacy; /* the settings of CUDA 3 calls; NULL before the first */
};

struct library {
	struct slab_head slab;
	struct context *context; /* of a module; NULL: a library, which belongs to the process */
	struct lock lock;        /* protects the list of kernels and the placed variables */
	struct kernel *kernels;
	_Atomic uint32_t is_refused; /* it has variables that could not be placed
				(variable.h) */
	uint32_t managed_device;
	uint64_t managed; /* address of its __managed__ variables; 0: not placed. Under the lock */
};

extern struct slab libraries;

/* NULL: no such library. */
struct library *library_find(const void *handle);
struct kernel *kernel_find(const void *handle); /* for a CUkernel or a CUfunction */
struct kernel *kernel_find_kernel(CUkernel handle);
struct kernel *kernel_find_function(CUfunction handle);

static inline CUfunction kernel_function(struct kernel *kernel)
{
	return (CUfunction)((uint8_t *)kernel + FUNCTION_OFFSET);
}

/* NULL: it is in a module, whose kernels have only a CUfunction. */
static inline CUkernel kernel_handle(struct kernel *kernel)
{
	return kernel->library->context ? NULL : (CUkernel)kernel;
}

uint32_t library_id(const struct library *library);
uint32_t kernel_id(const struct kernel *kernel);

/*
 * Sends a copy of the image to the server, which loads it. `context' as in struct
 * library. `jit' may be NULL; its logs are filled in on failure too.
 */
CUresult library_load(const void *image, struct context *context, const struct jit *jit,
	struct library **ret_library);
void library_unload(struct library *library);

/* Frees its slot and its kernels; the server does not have the library. */
void library_free(struct library *library);

/* The kernel of that name; asks the server once per name. CUDA_ERROR_NOT_FOUND. */
CUresult library_kernel(struct library *library, const char *name, struct kernel **ret_kernel);

CUresult kernel_ask_params(struct kernel *kernel);

/* Gets the parameters of a kernel; asks the server the first time. */
static inline CUresult kernel_measure(struct kernel *kernel)
{
	return likely(atomic_load_explicit(&kernel->params, memory_order_acquire) != NULL)
		       ? CUDA_SUCCESS
		       : kernel_ask_params(kernel);
}

/* A variable of the library in the current context; each result may be NULL. */
CUresult library_get_global(
	CUdeviceptr *dptr, size_t *bytes, const void *library, const char *name);

/* The number of kernels in it. */
CUresult library_count(struct library *library, unsigned *ret_count);

/*
 * Calls `visit' with the names of its first `n_max' kernels, in the driver's order,
 * until an error.
 */
CUresult library_each(struct library *library, unsigned n_max,
	CUresult (*visit)(struct library *library, const char *name, unsigned i, void *arg),
	void *arg, unsigned *ret_n);

/* Unloads the modules of a context that ends. */
void modules_end_context(struct context *context);

#endif
