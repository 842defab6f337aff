/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program that has loaded this library. Any thread.
 *
 * Invariant: depends on the path alone that the loader was given or has found, which stays the
 * same as long as the process lives.
 */

#include "everywhere.h"

#include <link.h>
#include <string.h>

#include "client/util/compat.h"

/* Only the loader's configuration names this folder (daemon/dist/install-everywhere). */
#define FOLDER "/mps/everywhere"

bool everywhere_has_loaded(void)
{
	static const char here;
	const size_t length = sizeof(FOLDER) - 1;
	const char *slash;
	Dl_info info;

	if (!dladdr || dladdr(&here, &info) == 0 || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	return slash && (size_t)(slash - info.dli_fname) >= length &&
	       strncmp(slash - length, FOLDER, length) == 0;
}

static int is_nvml(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	(void)user;
	return strstr(info->dlpi_name, "/libnvidia-ml.so") != NULL;
}

bool everywhere_is_monitor(void)
{
	return dl_iterate_phdr(is_nvml, NULL) != 0;
}
