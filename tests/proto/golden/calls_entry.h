/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALLS_ENTRY_H
#define CALLS_ENTRY_H

/*
 * The driver functions that the room entry of the client answers, written by hand.
 * The stubs call them, after the checks of the spec; where a check finds an object by
 * its handle, the function gets the object. A function on a default stream that is not
 * an argument gets the stream as `implicit': CU_STREAM_LEGACY or CU_STREAM_PER_THREAD.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "cuda_api.h"

/* The checks of the spec are all that some arguments are for. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

CUresult local_cuInit(unsigned int Flags);

#endif
