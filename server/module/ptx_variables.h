/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_VARIABLES_H
#define PTX_VARIABLES_H

/*
 * How many bytes the variables in global memory take that a PTX text defines, those of
 * __managed__ left out. Not what the compiler would refuse: of such a text, some number.
 * Any thread.
 */

#include <stddef.h>
#include <stdint.h>

uint64_t ptx_variables(const char *text, size_t size);

#endif
