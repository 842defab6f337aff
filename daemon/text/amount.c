/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Amounts in tables for people. Any thread.
 *
 * Invariant: a text has five characters at most, for any amount.
 */

#include "amount.h"

void amount_text(uint64_t amount, unsigned step, char text[AMOUNT_TEXT])
{
	static const char units[] = " KMGTPE";
	double value = (double)amount;
	unsigned unit = 0;

	for (; value >= step && units[unit + 1]; unit++)
		value /= step;
	if (unit == 0)
		snprintf(text, AMOUNT_TEXT, "%u", (unsigned)amount);
	else
		/* 99.96 would be rounded to "100.0". */
		snprintf(
			text, AMOUNT_TEXT, value < 99.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
}
