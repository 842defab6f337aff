/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REFUSAL_H
#define REFUSAL_H

#include "layout.h"
#include "shm.h"

/*
 * A call returns CUDA_ERROR_OUT_OF_MEMORY: logs which limit has refused the memory and what to
 * do, once for each limit. Any thread.
 */
void refusal_log(const struct page __shm *page);

#endif
