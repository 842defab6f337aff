/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_H
#define API_H

/*
 * NVIDIA's header, with each symbol under its exported name. Without this macro
 * cuda.h renames functions to their newest version.
 */

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include "base.h"

#endif
