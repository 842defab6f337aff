/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMOUNT_H
#define AMOUNT_H

/* Amounts in tables for people. Any thread. */

#include "base.h"

#define AMOUNT_TEXT 8

/*
 * Writes an amount with a unit, in at most five characters: "0", "999", "12.3K", "4.5G". `step'
 * is what a unit has of the next smaller one: 1000, or 1024 for bytes.
 */
void amount_text(uint64_t amount, unsigned step, char text[AMOUNT_TEXT]);

#endif
