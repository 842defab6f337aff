/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALLS_THING_H
#define CALLS_THING_H

/*
 * The driver functions that the room thing of the client answers, written by hand.
 * The stubs call them, after the checks of the spec; where a check finds an object by
 * its handle, the function gets the object. A function on a default stream that is not
 * an argument gets the stream as `implicit': CU_STREAM_LEGACY or CU_STREAM_PER_THREAD.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "cuda_api.h"

/* The checks of the spec are all that some arguments are for. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct stream;

CUresult local_cuThingCreate_v2(CUthing *pThing, const char *name, size_t bytes);
CUresult local_cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, struct stream *hStream);

#endif
