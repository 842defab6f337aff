/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NUMBER_H
#define NUMBER_H

/* Numbers in the environment. Any thread, as getenv(). */

#include <stdint.h>

/*
 * What an environment variable says. `usual': if it is unset, empty, or no number from `least' to
 * `most', which the log says. `unit' is for the log: "milliseconds".
 */
uint64_t number_setting(
	const char *variable, const char *unit, uint64_t least, uint64_t most, uint64_t usual);

#endif
