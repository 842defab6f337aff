/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JIT_H
#define JIT_H

/*
 * Options of the driver's compiler, as a program passes them and as messages carry
 * them. Used by one thread at a time.
 */

#include "wire.h"
#include "client/util/api.h"

struct jit_log {
	char *bytes; /* the program's buffer; NULL: no log wanted */
	uint32_t size;
	void **place; /* the address of its size in the program's list of values */
};

struct jit {
	struct jit_option options[WIRE_JIT_OPTIONS_MAX];
	void **places[WIRE_JIT_OPTIONS_MAX]; /* the addresses of their values in the program's list
					      */
	uint32_t n_options;
	struct jit_log error, info;
	bool is_module;
};

/* CUDA_ERROR_INVALID_VALUE: unknown option, or too many options. */
CUresult jit_read(struct jit *jit, const CUjit_option *options, void **values, unsigned n);

/* Copies logs and values to the program; in `logs' the error log comes first. */
struct jit_answer {
	uint32_t result, values[WIRE_JIT_OPTIONS_MAX];
	uint32_t error_filled, info_filled, error_length;
	uint8_t logs[2 * WIRE_JIT_LOG_MAX];
	uint32_t n_logs;
};
void jit_write(const struct jit *jit, const struct jit_answer *answer);

#endif
