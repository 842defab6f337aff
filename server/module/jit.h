/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JIT_H
#define JIT_H

/*
 * Options of the driver's compiler and linker, with two logs. The driver keeps their address
 * as long as it may compile. One thread: a session's worker.
 */

#include "wire.h"
#include "server/driver/driver.h"

/* Options of the client, and two for each of two logs. */
#define JIT_MAX (WIRE_JIT_OPTIONS_MAX + 4)

struct log_buffer {
	char *bytes; /* a NUL follows `size' */
	uint32_t size;
	unsigned at; /* index of its size among the options */
};

struct jit {
	CUjit_option options[JIT_MAX];
	void *values[JIT_MAX];
	unsigned n;
	unsigned first; /* index of the client's first option */
	struct log_buffer error, info;
};

/* How many bytes the two logs need. */
static inline size_t jit_bytes(uint32_t error_size, uint32_t info_size)
{
	return (size_t)error_size + info_size + 2;
}

/* `jit' is zeroed, and so are the jit_bytes() at `bytes', which stay with the caller. */
void jit_init(struct jit *jit, char *bytes, uint32_t error_size, uint32_t info_size);

/* Adds the client's options. False: the driver would take the value of one for an address. */
bool jit_put(struct jit *jit, const struct jit_option *options, uint32_t n);

/* The values of the client's `n' options after the driver's changes. */
void jit_values(const struct jit *jit, uint32_t n, uint32_t *values);

/*
 * Copies the logs, the error log first, without NULs. *ret_filled are the lengths that the
 * driver counts.
 */
void jit_logs(const struct jit *jit, uint32_t *ret_error_filled, uint32_t *ret_info_filled,
	uint32_t *ret_error_length, uint8_t *logs, uint32_t *ret_n_logs);

#endif
