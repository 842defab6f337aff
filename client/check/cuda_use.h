/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_USE_H
#define CUDA_USE_H

/*
 * How the program and the files that it loads use CUDA.
 */

#include "findings.h"
#include "program.h"

/*
 * Reports use of CUDA that bypasses the client library, or that there is none. Overwrites
 * `paths', the other files that the program loads, one per line.
 */
void cuda_use_check(const struct program *program, char *paths, struct findings *findings);

#endif
