/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARE_H
#define SHARE_H

/*
 * The share of a GPU's SMs that this process requests by its environment, and the
 * share that it gets. It and device.c call each other: the attributes of a GPU tell the
 * share, whose groups are facts of the GPU. Any thread.
 */

#include "device.h"
#include "client/util/api.h"

#define SHARE_VARIABLE "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#define SHARE_PER_CONTEXT "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"

/* Reads the environment, once, when the GPUs are first counted and before other threads call. */
void share_init(void);

/* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE in thousandths of a percent; all, if it is not set. */
uint32_t share_asked(void);

/* Whether contexts may have fewer SMs than the process. */
bool share_is_per_context(void);

/* How many groups of SMs a context may have at most, by the current environment. */
uint32_t share_groups_now(const struct device *device);

/* The SMs that the process has on a GPU, also before the GPU is opened; does not open it. */
uint32_t share_sms_of_process(const struct device *device);

/* The same, or the current context's SMs if that context is on this GPU. */
uint32_t share_sms(const struct device *device);

#endif
