/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALLBACK_H
#define CALLBACK_H

/*
 * Host functions: queued in a stream like other work, and run here when the GPU
 * reaches them, by one thread that exists while there are any. The thread also does
 * what must happen when work ends, even if the program makes no call.
 */

#include "client/util/api.h"

struct stream;

/*
 * The stream's next work runs `function' or, if that is NULL, `callback' with the handle
 * as the program passed it.
 */
CUresult callback_add(struct stream *stream, CUhostFn function, CUstreamCallback callback,
	CUstream handle, void *data);

/*
 * The GPU will ask for that call of a graph once; `function' is then run. Several
 * functions for one call run in this order. If `owned', `data' is freed afterwards,
 * and on failure.
 */
CUresult callback_expect(
	uint32_t call, uint64_t launch, CUhostFn function, void *data, bool is_owned);

/* The GPU will not ask for the calls of that launch. */
void callbacks_forget(uint64_t launch);

/* The thread runs the function soon, after a fault too. false: there can be no thread. */
bool callback_run(CUhostFn function, void *data);

/* This thread runs it now, as a host function. */
void callback_run_here(CUhostFn function, void *data);

/* Something waits for the end of work: the thread calls hooks.free_ended() until nothing does. */
void callback_expect_ends(void);

#endif
