/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables in machine code for the GPU itself.
 *
 * Builds with: -arch=sm_90
 */

#define NAME "variables_cubin"
#include "variables.cu"
