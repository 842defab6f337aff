/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_H
#define KERNEL_H

/*
 * Kernels of a session's libraries. Owned by their library, found by id. The
 * session's worker only.
 */

#include "server/driver/driver.h"
#include "server/session/session.h"

struct library;
struct session_device;
struct session;

/* A kernel on one GPU, found at its first use there. */
struct device_kernel {
	CUfunction function;  /* NULL: not found yet */
	bool is_clustered;    /* by itself, without an attribute of the launch */
	uint32_t threads_max; /* a block */
	uint32_t dynamic_shared_max;
	uint32_t local_bytes; /* a thread */
	bool is_ready;        /* kernel_make_room() was successful */
};

struct kernel {
	struct kernel *next; /* of its library */
	struct library *library;
	uint32_t id;
	bool prints;      /* it can print; as is_measured */
	bool is_measured; /* param_bytes is known, as for every kernel that kernel_find() found */
	uint32_t param_bytes, n_params;
	CUkernel real;
	CUkernel next_real; /* while its library is loaded anew (managed.c) */
	char name[KERNEL_NAME_MAX];
	struct device_kernel on_devices[]; /* by GPU */
};

/* The kernel on a GPU whose context is current; the driver may have to load it. */
CUresult kernel_find(struct session *session, struct kernel *kernel,
	const struct session_device *sdev, const struct device_kernel **ret_found);

/* Its library was loaded anew before the kernel was launched: it is `next_real' from now on. */
void kernel_replace(struct kernel *kernel);

/* Has the GPU get local memory for a kernel that was found there, before its first launch. */
CUresult kernel_make_room(
	struct session *session, struct kernel *kernel, const struct session_device *sdev);

static inline CUresult kernel_ready(struct session *session, struct kernel *kernel,
	const struct session_device *sdev, const struct device_kernel *found)
{
	return likely(found->is_ready) ? CUDA_SUCCESS : kernel_make_room(session, kernel, sdev);
}

/*
 * Where each parameter lies in `params', for what takes them one by one. There
 * are kernel->n_params of either; the kernel was found before.
 */
CUresult kernel_point(const struct kernel *kernel, const void *params, void **pointers);

#endif
