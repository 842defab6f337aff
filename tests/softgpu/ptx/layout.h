/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_LAYOUT_H
#define PTX_LAYOUT_H

/*
 * Where what a parsed module declares lies: its functions and variables get
 * their numbers, parameters and shared variables their offsets.
 */

#include "code.h"
#include "tests/softgpu/ptx/parse/parse.h"

/* Numbers functions and variables, and makes the module's tables of them. */
int ptx_layout_module(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log);

/*
 * Lays out the parameters and the shared memory of every kernel, and fills
 * their information but for what the translator finds out.
 */
int ptx_layout_kernels(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log);

#endif
