/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_H
#define KERNEL_H

/*
 * Kernels of a session's libraries. Owned by their library, found by ID. The session's
 * worker only.
 */

#include "server/session/session.h"
#include "server/driver/driver.h"
#include "server/stream/printf_capture.h"

struct library;
struct session_device;

/* A kernel on one GPU, found at its first use there. */
struct device_kernel {
	CUfunction function;  /* NULL: not found yet */
	CUkernel real;        /* in the code that is used there; NULL before that is loaded */
	bool is_clustered;    /* without an attribute of the launch */
	uint32_t threads_max; /* per block */
	uint32_t dynamic_shared_max;
	uint32_t local_bytes; /* per thread */
	bool is_ready;        /* kernel_make_ready() was successful */
};

struct kernel {
	char name[KERNEL_NAME_MAX]; /* first: a launch notes its address at no cost */
	struct kernel *next;        /* in the list of its library */
	struct library *library;
	uint32_t id;
	bool prints; /* it can print; set with is_measured, as the next */
	struct print_history print_history;
	bool is_parent;   /* it can launch kernels */
	bool is_measured; /* param_bytes is known, as after every successful kernel_find() */
	uint32_t param_bytes, n_params;
	CUkernel real;                     /* in the library as the program has loaded it */
	CUkernel next_real;                /* while its library is being reloaded (managed.c) */
	struct device_kernel on_devices[]; /* by GPU */
};

/* The kernel on a GPU whose context is current. The driver may have to load it. */
CUresult kernel_find(struct session *session, struct kernel *kernel,
	const struct session_device *sdev, const struct device_kernel **ret_found);

/* Its library was reloaded before the kernel was launched: `next_real' becomes the kernel. */
void kernel_replace(struct kernel *kernel);

/* No kernel of the library is found on any GPU any more. None was launched. */
void kernels_forget(struct library *library);

/* Makes the GPU allocate local memory for the kernel, before its first launch there. */
CUresult kernel_make_ready(
	struct session *session, struct kernel *kernel, const struct session_device *sdev);

static inline CUresult kernel_ready(struct session *session, struct kernel *kernel,
	const struct session_device *sdev, const struct device_kernel *found)
{
	return likely(found->is_ready) ? CUDA_SUCCESS : kernel_make_ready(session, kernel, sdev);
}

/*
 * The address in `params' of each parameter, for driver calls that take parameters one by
 * one. Both have kernel->n_params entries. The kernel was found before.
 */
CUresult kernel_point(const struct kernel *kernel, const struct device_kernel *found,
	const void *params, void **pointers);

#endif
