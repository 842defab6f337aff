/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARE_H
#define SHARE_H

/*
 * The share of a GPU's SMs that this process asks for at most, by its environment,
 * and the one that it gets. Any thread.
 */

#include "client/util/api.h"
#include "device.h"

#define SHARE_VARIABLE "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#define SHARE_PER_CONTEXT "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"

/* Reads the environment, as the GPUs are first counted: once, before other threads ask. */
void share_init(void);

/* Thousandths of a percent, as CUDA_MPS_ACTIVE_THREAD_PERCENTAGE had it; else all. */
uint32_t share_asked(void);

/* Whether contexts may have fewer SMs than the process. */
bool share_is_per_context(void);

/* Groups of the GPU's SMs that a context may have at most, by the environment as it is now. */
uint32_t share_groups_now(const struct device *device);

/* SMs that the process has of a GPU: also before it is opened, which this does not do. */
uint32_t share_sms_of_process(const struct device *device);

/* The same, or those of the current context if that is of this GPU. */
uint32_t share_sms(const struct device *device);

#endif
