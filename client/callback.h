/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALLBACK_H
#define CALLBACK_H

/*
 * Host functions: put into a stream like other work, run here when the GPU has
 * come to them, by one thread that is there while there are any.
 */

#include "api.h"

/* Whether this thread is in a host function, from which CUDA may not be called. */
extern _Thread_local bool callback_is_running;

#endif
