/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVICE_H
#define SERVICE_H

/*
 * Whether a daemon would serve a program with the client library.
 */

#include "findings.h"

/* Connects to the daemon and tells it the version of the library, but starts no server. */
void service_check(const char *library, struct findings *findings);

#endif
