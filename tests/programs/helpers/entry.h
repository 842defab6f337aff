/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENTRY_H
#define ENTRY_H

/* Driver functions for programs that are linked only with the runtime. */

#include <cuda.h>

#include "program.h"

/* A program that needs later functions defines a later version before it includes this. */
#ifndef ENTRY_VERSION
#define ENTRY_VERSION 12000
#endif

static inline void *entry(const char *name)
{
	cudaDriverEntryPointQueryResult found;
	void *function = NULL;

	CHECK(cudaGetDriverEntryPointByVersion(
		name, &function, ENTRY_VERSION, cudaEnableDefault, &found));
	if (!function || found != cudaDriverEntryPointSuccess)
		FAIL("there is no %s", name);
	return function;
}

static inline void expect_driver(CUresult got, CUresult want, int line)
{
	if (got != want)
		FAIL("line %d: driver: %d instead of %d", line, got, want);
}

#define DRIVER(want, name, ...)                                                                    \
	expect_driver(((decltype(&name))entry(#name))(__VA_ARGS__), (want), __LINE__)

#endif
