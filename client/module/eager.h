/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EAGER_H
#define EAGER_H

/*
 * Programs that want all code of an image loaded when the image is: they say
 * CUDA_MODULE_LOADING=EAGER. Any thread.
 */

#include <stdbool.h>

#include "library.h"

/* Reads the environment, as the driver does in its cuInit(). */
void eager_init(void);

bool eager_is_wanted(void);

/*
 * Has the server's driver load each kernel of a new library, with pauses for
 * its neighbours. CUDA_SUCCESS at once where nobody wants that; else the first
 * error, and the library is as it was.
 */
CUresult eager_load(struct library *library);

#endif
