/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOFTWARE_H
#define SOFTWARE_H

/*
 * --software: the software GPU instead of the NVIDIA driver. Used only in main(), before
 * the configuration is read.
 */

#include "daemon/text/error_message.h"

/*
 * Sets MPS_CUDA_LIBRARY to the software GPU that was installed or built with this program.
 * 0; -ENOENT: it is not there; another -errno: it cannot be used.
 */
int software_choose(struct error_message *error);

#endif
