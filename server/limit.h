/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIMIT_H
#define LIMIT_H

/* Limits of a GPU's context that kernels feel. A worker. */

#include "driver.h"

struct device;
struct session;

/*
 * Makes the GPU have local memory for a kernel with so many bytes a thread. The
 * driver would do that at the launch, and wait for all that is on the GPU with
 * its lock held, for a stream that stands still too.
 */
CUresult limit_cover_local(struct session *session, struct device *device, uint32_t bytes);

#endif
