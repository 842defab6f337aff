/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the software GPU beside this program. Runs in main() first.
 */

#include "software.h"

#include <stdlib.h>
#include <string.h>

#include "bounds.h"
#include "daemon/text/directory.h"

/* From the folder of this program: in an installation, and in a build. */
static const char *const places[] = {
	"../lib/mps/softgpu/libcuda.so.1",
	"../softgpu/libcuda.so.1",
	NULL,
};

int software_choose(struct error_message *error)
{
	char path[PATH_MAX];

	if (!directory_find_beside(places, path)) {
		*strrchr(path, '/') = '\0';
		return error_message_set(error, -ENOENT,
			"The software GPU is not installed in %.300s: install the package "
			"mps-softgpu, or build it (make softgpu)",
			path);
	}
	/* The kernel tells nothing of this GPU: no survivor of a fault has to wait for that. */
	return setenv("MPS_CUDA_LIBRARY", path, 1) == 0 &&
			       setenv("MPS_KERNEL_LOG", KERNEL_LOG_NONE, 0) == 0
		       ? 0
		       : error_message_set(error, -ENOMEM, "Out of memory");
}
