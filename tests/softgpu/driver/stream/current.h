/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CURRENT_H
#define CURRENT_H

/*
 * The calling thread's stack of current contexts. It holds handles: another thread
 * may have destroyed their contexts.
 */

#include "tests/softgpu/driver/driver.h"

const void *current_top(void); /* NULL: the stack is empty */
CUresult current_push(const void *handle);
const void *current_pop(void); /* NULL: the stack was empty */

#endif
