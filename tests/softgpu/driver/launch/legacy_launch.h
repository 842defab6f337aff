/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEGACY_LAUNCH_H
#define LEGACY_LAUNCH_H

/*
 * What the calls of CUDA 3 have set on a function: the shape of a block, shared memory
 * and arguments, which stay from launch to launch. Under the driver's lock.
 */

#include <stddef.h>
#include <stdint.h>

#define LEGACY_PARAMS_MAX 32764u /* what a launch may have */

struct legacy_launch {
	uint32_t block[3];
	uint32_t shared;
	size_t size; /* of the arguments */
	uint8_t params[LEGACY_PARAMS_MAX];
};

#endif
