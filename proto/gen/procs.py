# SPDX-License-Identifier: Apache-2.0
"""procs.h and procs.c: the table of cuGetProcAddress."""

from .headers import DECLARED
from .text import banner, wrapped


def gen_procs_h():
    return banner("The table of cuGetProcAddress.", "PROCS_H") + "\n" + PROCS_H


PROCS_H = """\
#include "cuda_api.h"

/*
 * cuGetProcAddress_v2 with the symbols of this library. For an unknown name or version, the
 * result is CUDA_SUCCESS, `*pfn' is NULL, and `*status' has the reason (`status' may be NULL).
 */
CUresult proc_address(const char *name, void **pfn, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status);

#endif
"""


def gen_procs_c(headers):
    out = [banner("The table of cuGetProcAddress. Any thread.\n\n"
                  "Invariant: names are sorted as strcmp() sorts them, rows by version.")]
    out.append('#include "procs.h"\n')
    out.append('#include <stdlib.h>\n#include <string.h>\n\n#include "base.h"\n')
    foreign = [p for p in headers.prototypes.values() if p.header not in DECLARED]
    if foreign:
        out.append("/* Only their addresses matter here. */")
        for prototype in foreign:
            out.append(wrapped(f"CUresult {prototype.symbol}(", prototype.declare_params(), ");"))
        out.append("")
    names = sorted(headers.versions, key=str.encode)
    out.append(PROCS_ROW)
    at, starts = 0, {}
    for name in names:
        plain, per_thread = headers.versions[name]
        starts[name] = at
        at += len(plain) + len(per_thread)
        out += [f"\t{{{version}, (void *){symbol}}}," for version, symbol in plain + per_thread]
    out.append("};\n")
    out.append(PROCS_NAME)
    for name in names:
        plain, per_thread = headers.versions[name]
        out.append(f'\t{{"{name}", {starts[name]}, {len(plain)}, {len(per_thread)}}},')
    out.append("};\n")
    return "\n".join(out) + PROCS_C


PROCS_ROW = """\
/* From this version on, a name stands for this symbol. */
static const struct row {
	int version; /* 3020 is CUDA 3.2 */
	void *symbol;
} rows[] = {"""

PROCS_NAME = """\
static const struct proc {
	const char *name;
	uint16_t first; /* of its rows: plain symbols by version, then per-thread symbols */
	uint16_t n_plain;
	uint16_t n_per_thread; /* 0: the plain symbols serve both */
} procs[] = {"""

PROCS_C = """\

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
"""
