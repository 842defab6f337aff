/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens the real libcuda. Main thread before the loop runs, and cuInit() on
 * the thread that starts the driver; `cuda' is only read afterwards. Any worker: its
 * private table.
 */

#include "driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

#include "disable.h"
#include "driver_facts.h"
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
		/* The daemon shows the last line to clients. */
		log_line("Looked for the CUDA driver: %s", why);
		log_line("%s", find_cuda_advice());
		return -ELIBACC;
	}
	/*
	 * If /etc/ld.so.preload has loaded the client library here, it must not return itself for
	 * libcuda.
	 */
	r = disable_add(DISABLE_DLOPEN);
	if (r < 0)
		return r;
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
	driver_facts_choose(version);
	return 0;
}

const char *driver_path(void)
{
	return library_path;
}

int driver_version(void)
{
	return version;
}

/* Of driver 580. cuBLASLt calls these slots of every driver, so later ones keep them. */
struct topology_table {
	size_t size; /* in bytes */
	void (*others[3])(void);
	CUresult (*read)(uint8_t **ret_gpcs, uint8_t **ret_numbers);
	void (*further[8])(void);
	void (*free)(uint8_t *gpcs, uint8_t *numbers);
};

static const struct topology_table *topology_table(void)
{
	static const CUuuid id = {
		{0x17, 0x34, (char)0xdc, 0x26, (char)0x80, 0x0d, 0x47, 0x45, (char)0x87, 0x26,
			(char)0xc0, (char)0xf1, (char)0xe7, (char)0xdd, (char)0x8b, (char)0xca}};
	const void *table = NULL;

	if (cuda.cuGetExportTable(&table, &id) != CUDA_SUCCESS || !table ||
		*(const size_t *)table < sizeof(struct topology_table))
		return NULL;
	return table;
}

CUresult driver_read_topology(uint8_t **ret_gpcs, uint8_t **ret_numbers)
{
	const struct topology_table *table = topology_table();

	*ret_gpcs = *ret_numbers = NULL;
	return table ? table->read(ret_gpcs, ret_numbers) : CUDA_ERROR_NOT_SUPPORTED;
}

void driver_free_topology(uint8_t *gpcs, uint8_t *numbers)
{
	const struct topology_table *table = topology_table();

	if (table)
		table->free(gpcs, numbers);
}

const char *result_name(CUresult result)
{
	const char *name = NULL;

	if (!cuda.cuGetErrorName || cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
		return "unknown CUresult";
	return name;
}
