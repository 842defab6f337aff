/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the software GPU beside this program. Runs in main() first.
 */

#include "software.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/text/directory.h"

/* From the folder of this program: in an installation, and in a build. */
static const char *const places[] = {
	"/../lib/mps/softgpu/libcuda.so.1",
	"/../softgpu/libcuda.so.1",
};

int software_choose(struct error_message *error)
{
	char folder[PATH_MAX], path[PATH_MAX + 64], real[PATH_MAX];

	directory_own(folder, sizeof(folder));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s%s", folder, places[i]);
		if (!realpath(path, real))
			continue;
		return setenv("MPS_CUDA_LIBRARY", real, 1) == 0
			       ? 0
			       : error_message_set(error, -ENOMEM, "Out of memory");
	}
	return error_message_set(error, -ENOENT,
		"The software GPU is not installed in %s/../lib/mps/softgpu: install the package "
		"mps-softgpu, or build it (make softgpu)",
		folder);
}
