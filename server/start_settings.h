/* SPDX-License-Identifier: Apache-2.0 */
#ifndef START_SETTINGS_H
#define START_SETTINGS_H

/*
 * What the operator had set for this server at its start, for its log. What
 * holds for a client comes with the client. Written in main(), read by the
 * loop.
 */

#include "base.h"

/* An option of the command line and its value. False: it is none of ours. */
bool start_settings_read(const char *option, const char *value);

/* After devices_init(). */
void start_settings_log(void);

#endif
