/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARE_H
#define SHARE_H

/*
 * The share of a GPU's SMs that this process asks for at most, by its environment,
 * and the one that it gets. Any thread.
 */

#include "api.h"
#include "device.h"

#define SHARE_VARIABLE "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"

/* Reads the environment, as the GPUs are first counted: once, before other threads ask. */
void share_init(void);

/* Thousandths of a percent, as CUDA_MPS_ACTIVE_THREAD_PERCENTAGE had it; else all. */
uint32_t share_asked(void);

/* SMs that the process has of a GPU: also before it is opened, which this does not do. */
uint32_t share_sms(const struct device *device);

#endif
