/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The server's driver loads code when a kernel in it is first requested. Programs
 * that want it earlier request all kernels. Any thread of the application.
 *
 * Invariant: the driver delays other clients while it loads code, so they have at
 * least half of the time.
 */

#include "eager.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "client/util/log.h"
#include "client/util/sleep.h"

/* A pause of the same length follows so much loading; shorter pauses cost more than they help. */
#define PACE_NS 500000

static atomic_bool is_wanted;

void eager_init(void)
{
	const char *mode = secure_getenv("CUDA_MODULE_LOADING");

	atomic_store_explicit(&is_wanted, mode && strcmp(mode, "EAGER") == 0, memory_order_relaxed);
}

bool eager_is_wanted(void)
{
	return atomic_load_explicit(&is_wanted, memory_order_relaxed);
}

struct pace {
	uint64_t busy_ns; /* since the last pause */
};

static void pace_rest(struct pace *pace)
{
	sleep_ns(pace->busy_ns);
	pace->busy_ns = 0;
}

/* Asking for the parameters makes the driver load the kernel. */
static CUresult load_kernel(
	struct library *library, const char *name, _unused_ unsigned i, void *arg)
{
	uint64_t began = now_ns();
	struct pace *pace = arg;
	struct kernel *kernel;
	CUresult result;

	if (pace->busy_ns >= PACE_NS) {
		pace_rest(pace);
		began = now_ns();
	}
	result = library_kernel(library, name, &kernel);
	if (result == CUDA_SUCCESS)
		result = kernel_measure(kernel);
	if (result != CUDA_SUCCESS)
		log_warn("CUDA_MODULE_LOADING=EAGER: cannot load kernel %s: error %d", name,
			(int)result);
	pace->busy_ns += now_ns() - began;
	return result;
}

CUresult eager_load(struct library *library)
{
	struct pace pace = {0};
	unsigned n;

	return eager_is_wanted() ? library_each(library, UINT32_MAX, load_kernel, &pace, &n)
				 : CUDA_SUCCESS;
}
