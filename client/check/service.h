/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a daemon would serve a program with the client library.
 */

#include "findings.h"

/* Connects to the daemon and tells it the version of the library, but starts no server. */
void service_check(const char *library, struct findings *findings);
