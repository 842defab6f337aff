/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_LAYOUT_H
#define PTX_LAYOUT_H

/*
 * The layout of a parsed module: functions and variables get numbers, parameters and
 * shared variables get offsets.
 */

#include "code.h"
#include "tests/softgpu/ptx/parse/parse.h"

/* Numbers functions and variables, and fills the module's tables with them. */
int ptx_layout_module(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log);

/*
 * Lays out the parameters and the shared memory of every kernel, and fills in the
 * kernels' information except what the translator finds.
 */
int ptx_layout_kernels(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log);

#endif
