/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NUMBER_H
#define NUMBER_H

/*
 * Numbers in text. Written out because newer headers turn atoi(), strtoul() and sscanf() into
 * symbols that older systems lack (compat.h).
 */

#include <ctype.h>

#include "base.h"

/* Reads the digits at `*at' and moves `*at' behind them; 0 without digits. */
static inline uint64_t number_read(const char **at, unsigned base)
{
	uint64_t value = 0;

	for (; base == 16 ? isxdigit((unsigned char)**at) : isdigit((unsigned char)**at); (*at)++) {
		unsigned digit =
			isdigit((unsigned char)**at) ? **at - '0' : (**at | 0x20) - 'a' + 10;

		value = value * base + digit;
	}
	return value;
}

#endif
