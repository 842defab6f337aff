/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_VARIABLES_H
#define PTX_VARIABLES_H

/*
 * How many bytes the variables in global memory take that a PTX text defines, without those
 * of __managed__. In a whole program, which the driver links with nothing, an extern variable
 * is a definition, too; if the text also has another one, both count. Any number for a text that
 * the compiler refuses. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t ptx_variables(const char *text, size_t size, bool is_whole);

#endif
