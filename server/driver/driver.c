/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens the real libcuda. Main thread before the loop runs, and cuInit() on
 * the thread that starts the driver; `cuda' is only read afterwards.
 */

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "find_cuda.h"
#include "server/util/log.h"

struct cuda_api cuda;

static char library_path[PATH_MAX];
static int version;

int driver_open(void)
{
	char why[FIND_CUDA_WHY_MAX];
	CUresult result;
	void *library;
	int r;

	r = find_cuda(library_path, sizeof(library_path), why, sizeof(why));
	if (r < 0) {
		log_line("%s", why);
		return r;
	}
	/*
	 * If /etc/ld.so.preload has loaded the client library here, it must not return itself for
	 * libcuda.
	 */
	setenv("MPS_CLIENT_DLOPEN", "0", 1);
	library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		log_line("Cannot open the CUDA driver %s: %s. Install the NVIDIA driver, or set "
			 "MPS_CUDA_LIBRARY to its libcuda.so.1",
			library_path, dlerror());
		return -ELIBACC;
	}
	cuda_api_load(&cuda, library, dlsym);
	result = cuda.cuDriverGetVersion(&version);
	if (result != CUDA_SUCCESS || version < DRIVER_VERSION_MIN) {
		log_line("CUDA driver too old: %s is for CUDA %d.%d. Update the NVIDIA driver to "
			 "550 (CUDA %d.%d) or newer",
			library_path, version / 1000, version % 1000 / 10,
			DRIVER_VERSION_MIN / 1000, DRIVER_VERSION_MIN % 1000 / 10);
		return -ELIBBAD;
	}
	return 0;
}

CUresult driver_init(void)
{
	return cuda.cuInit(0);
}

const char *driver_path(void)
{
	return library_path;
}

int driver_version(void)
{
	return version;
}

const char *result_name(CUresult result)
{
	const char *name = NULL;

	if (!cuda.cuGetErrorName || cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
		return "unknown CUresult";
	return name;
}
