/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILD_ID_H
#define BUILD_ID_H

/*
 * The build of a program: the first bytes of the ID that the linker has put into its file. Two
 * builds of equal sources by equal compilers have the same one. Any thread.
 */

#include "base.h"

/* 0: the file cannot be read, or has no ID. */
uint64_t build_id_of(const char *path);

#endif
