/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIMIT_H
#define LIMIT_H

/* The value that a limit gets when a program sets it. Any thread. */

#include "device.h"

/*
 * CUDA_ERROR_INVALID_VALUE: it is out of range. CUDA_ERROR_NOT_PERMITTED: the limit can only be
 * queried.
 */
CUresult limit_round(const struct device *device, CUlimit limit, size_t value, size_t *ret_value);

#endif
