/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NUMBER_H
#define NUMBER_H

/* Decimal numbers in text. Any thread; the second function as getenv(). */

#include <stdbool.h>
#include <stdint.h>

/* Whether the text is nothing but a number up to `most'. */
bool number_read(const char *text, uint64_t most, uint64_t *ret_number);

/* What an environment variable says. */
struct number_setting {
	const char *variable;
	const char *unit; /* for the log: "milliseconds" */
	uint64_t least, most;
	uint64_t usual; /* if the variable is unset, empty, or no such number, which the log says */
};

uint64_t number_setting_read(const struct number_setting *setting);

#endif
