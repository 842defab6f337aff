/* SPDX-License-Identifier: Apache-2.0 */
#ifndef START_SETTINGS_H
#define START_SETTINGS_H

/*
 * The operator's settings for this server at its start, for its log. Limits of a client come
 * with the client. Written in main(), read by the loop.
 */

#include "base.h"

/* Reads an option of the command line with its value. False: it is not one of these. */
bool start_settings_read(const char *option, const char *value);

/* After devices_init(). */
void start_settings_log(void);

#endif
