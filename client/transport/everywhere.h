/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVERYWHERE_H
#define EVERYWHERE_H

/*
 * A machine can have this library for every CUDA program, by the configuration of its loader
 * (docs/everywhere.md). Such a program was not told to be a client, so it prints nothing about
 * running without the service. Any thread.
 */

#include <stdbool.h>

/* Whether the loader's configuration has loaded this library, and not the program's environment. */
bool everywhere_has_loaded(void);

/*
 * Whether the process has NVML, which monitors of GPUs use. NVML asks this library for the
 * driver's version, and for nothing else: that needs no server.
 */
bool everywhere_is_monitor(void);

#endif
