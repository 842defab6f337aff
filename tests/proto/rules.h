/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RULES_H
#define RULES_H

/*
 * What the generated test_rules.c (valid messages, refusals, round trips) shares
 * with test_wire.c, which runs it. One thread.
 */

#include <cuda.h>

#include "wire.h"

/*
 * Overwrites `width' bytes of a valid message. dispatch_message() then returns `why' or `result'.
 */
struct rule {
	const char *why;
	CUresult result;
	uint32_t offset;
	uint32_t width;
	uint64_t value;
};

/* An argument of send_X() at the limit of a rule, or beyond it. */
struct attempt {
	const char *what;
	bool is_refused;
};

struct rule_case {
	const char *name;
	uint32_t (*make)(void *buffer); /* a valid message; returns its size */
	/* Calls send_X() with attempts[attempt - 1]; 0: with valid arguments, and checks the
	 * results. */
	CUresult (*send)(unsigned attempt);
	const struct rule *rules;
	unsigned n_rules;
	const struct attempt *attempts;
	unsigned n_attempts;
};

extern const struct rule_case rule_cases[];
extern const unsigned n_rule_cases;

/* Whether the server handles the valid message, so that do_X() knows its arguments. */
extern bool rules_strict;

/* Each do_X() calls this. */
void rules_done(uint16_t op, const void *session);

void rules_expect(bool is_so, const char *what, int line);
#define EXPECT(condition) rules_expect(condition, #condition, __LINE__)

/* The object with an ID. */
void *object(uint32_t id);

/* Bytes seed, seed + 1 and so on; touch() only reads each byte. */
void fill(void *buffer, size_t size, unsigned seed);
bool is_filled(const void *buffer, size_t size, unsigned seed);
void touch(const void *buffer, size_t size);

/* A string of `size' bytes with its NUL. */
const char *long_string(uint32_t size);

/* MESSAGE_MAX bytes. */
const void *long_bytes(void);

#endif
