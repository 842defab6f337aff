/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALLBACK_H
#define CALLBACK_H

/*
 * Host functions: put into a stream like other work, run here when the GPU has
 * come to them, by one thread that is there while there are any.
 */

#include "client/util/api.h"

/* Whether this thread is in a host function, from which CUDA may not be called. */
extern _Thread_local bool callback_is_running;

/*
 * The GPU will ask for that call of a graph once: what is to be done then.
 * Several for one call are done in this order. `data' is freed afterwards if
 * it is `owned', and on failure.
 */
CUresult callback_expect(
	uint32_t call, uint64_t launch, CUhostFn function, void *data, bool is_owned);

/* It will not ask for those of that launch. */
void callbacks_forget(uint64_t launch);

#endif
