/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables in linked code, whose instructions have their addresses.
 *
 * Builds with: -rdc=true
 */

#define NAME "variables_linked"
#include "variables.cu"
