/* SPDX-License-Identifier: Apache-2.0 */

/*
 * SYMBOL(NAME) for each symbol that the library exports.
 *
 * Made by proto/gen.py.
 */

SYMBOL(cuInit)
SYMBOL(cuThingCreate_v2)
SYMBOL(cuThingCopy_ptds)
SYMBOL(cuThingRun_ptsz)
SYMBOL(cuThingName)
SYMBOL(cuThingForgotten)
SYMBOL(cuThingCreate)
SYMBOL(cuThingCopy)
SYMBOL(cuThingRun)
SYMBOL(cuProfilerStart)
SYMBOL(cuGLInit)
