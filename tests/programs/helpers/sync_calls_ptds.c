/* SPDX-License-Identifier: Apache-2.0 */

/* The calls with the symbols of per-thread default streams. */

#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "sync_table.h"
