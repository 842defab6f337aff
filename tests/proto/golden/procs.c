/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of cuGetProcAddress. Any thread.
 *
 * Invariant: names are sorted as strcmp() sorts them, rows by version.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "procs.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"

/* Only their addresses matter here. */
CUresult cuGLInit(GLuint buffer);

static const struct proc_row rows[] = {
	{2000, (void *)cuInit},
	{3020, (void *)cuThingCopy},
	{7000, (void *)cuThingCopy_ptds},
	{2000, (void *)cuThingCreate},
	{4000, (void *)cuThingCreate_v2},
	{2000, (void *)cuThingName},
	{9000, (void *)cuThingRun},
	{9000, (void *)cuThingRun_ptsz},
};

static const struct proc procs[] = {
	{"cuInit", &rows[0], 1, 0},
	{"cuThingCopy", &rows[1], 1, 1},
	{"cuThingCreate", &rows[3], 2, 0},
	{"cuThingName", &rows[5], 1, 0},
	{"cuThingRun", &rows[6], 1, 1},
};

static int compare(const void *key, const void *proc)
{
	return strcmp(key, ((const struct proc *)proc)->name);
}

const struct proc *proc_find(const char *name)
{
	return bsearch(name, procs, ARRAY_SIZE(procs), sizeof(procs[0]), compare);
}

/* The newest row for a program that was built for `version'; NULL if all rows are newer. */
static void *newest(const struct proc_row *row, unsigned n, int version)
{
	void *symbol = NULL;

	for (unsigned i = 0; i < n && row[i].version <= version; i++)
		symbol = row[i].symbol;
	return symbol;
}

static void *address_of(const struct proc *proc, int version, uint64_t flags)
{
	if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && proc->n_per_thread > 0)
		return newest(proc->rows + proc->n_plain, proc->n_per_thread, version);
	return newest(proc->rows, proc->n_plain, version);
}

CUresult proc_address(const char *name, void **pfn, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	const struct proc *proc;

	if (!name || !pfn || version > CUDA_VERSION ||
		flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	*pfn = NULL;
	proc = proc_find(name);
	if (proc) {
		*pfn = address_of(proc, version, flags);
		found = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS
			     : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	}
	if (status)
		*status = found;
	return CUDA_SUCCESS;
}
