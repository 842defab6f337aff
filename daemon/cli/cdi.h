/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CDI_H
#define CDI_H

/* mps-control cdi: writes what a container engine needs to make clients. main() only. */

#include "daemon/config/config.h"

/*
 * Writes the specification to standard output or to the file of --output. It
 * needs no daemon. Returns the exit status.
 */
int cdi_run(const struct config *config, char *const *arguments);

#endif
