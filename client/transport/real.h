/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REAL_H
#define REAL_H

/*
 * The machine's own libcuda, for a process that runs without a server or has not yet
 * decided. Opened at most once, under the lock of route_decide(), and never closed.
 */

#include "cuda_api.h"
#include "client/util/api.h"

extern struct cuda_api real;

/* Fills `real'. 0, or -ENOENT; then `why' (FIND_CUDA_WHY_MAX) says what was tried. */
int real_open(char *why, size_t why_size);

#endif
