/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EAGER_H
#define EAGER_H

/*
 * CUDA_MODULE_LOADING=EAGER: a program wants all code of an image loaded together
 * with the image. Any thread.
 */

#include <stdbool.h>

#include "library.h"

/* Reads the environment, as the driver does in cuInit(). */
void eager_init(void);

bool eager_is_wanted(void);

/*
 * Makes the server's driver load each kernel of a new library, with pauses for
 * other clients. CUDA_SUCCESS at once without CUDA_MODULE_LOADING=EAGER; otherwise
 * the first error, and the library is unchanged.
 */
CUresult eager_load(struct library *library);

#endif
