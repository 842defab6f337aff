/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCS_H
#define PROCS_H

/* The table for cuGetProcAddress: the functions of this driver, by name and version. */

#include <stddef.h>
#include <stdbool.h>

struct proc {
	const char *name; /* without suffixes */
	int version;      /* from this CUDA version on */
	bool is_per_thread;
	void *address;
};

extern const struct proc procs[];
extern const size_t n_procs;

#endif
