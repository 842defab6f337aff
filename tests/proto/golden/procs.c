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

/* From this version on, a name stands for this symbol. */
static const struct row {
	int version; /* 3020 is CUDA 3.2 */
	void *symbol;
} rows[] = {
	{2000, (void *)cuInit},
	{3020, (void *)cuThingCopy},
	{7000, (void *)cuThingCopy_ptds},
	{2000, (void *)cuThingCreate},
	{4000, (void *)cuThingCreate_v2},
	{2000, (void *)cuThingName},
	{9000, (void *)cuThingRun},
	{9000, (void *)cuThingRun_ptsz},
};

static const struct proc {
	const char *name;
	uint16_t first; /* of its rows: plain symbols by version, then per-thread symbols */
	uint16_t n_plain;
	uint16_t n_per_thread; /* 0: the plain symbols serve both */
} procs[] = {
	{"cuInit", 0, 1, 0},
	{"cuThingCopy", 1, 1, 1},
	{"cuThingCreate", 3, 2, 0},
	{"cuThingName", 5, 1, 0},
	{"cuThingRun", 6, 1, 1},
};

static int compare(const void *key, const void *proc)
{
	return strcmp(key, ((const struct proc *)proc)->name);
}

/* The newest row for a program that was built for `version'; NULL if all rows are newer. */
static void *newest(const struct row *row, unsigned n, int version)
{
	void *symbol = NULL;

	for (unsigned i = 0; i < n && row[i].version <= version; i++)
		symbol = row[i].symbol;
	return symbol;
}

static void *address_of(const struct proc *proc, int version, uint64_t flags)
{
	if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && proc->n_per_thread > 0)
		return newest(&rows[proc->first + proc->n_plain], proc->n_per_thread, version);
	return newest(&rows[proc->first], proc->n_plain, version);
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
	proc = bsearch(name, procs, ARRAY_SIZE(procs), sizeof(procs[0]), compare);
	if (proc) {
		*pfn = address_of(proc, version, flags);
		found = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS
			     : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	}
	if (status)
		*status = found;
	return CUDA_SUCCESS;
}
