/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JIT_H
#define JIT_H

/*
 * Options of the driver's compiler, as a program gives them and as they travel.
 * A thread's own.
 */

#include "client/util/api.h"
#include "wire.h"

struct jit_log {
	char *bytes; /* the program's; NULL: no log is wanted */
	uint32_t size;
	void **place; /* where its size stands among the program's values */
};

struct jit {
	struct jit_option options[WIRE_JIT_OPTIONS_MAX];
	void **places[WIRE_JIT_OPTIONS_MAX]; /* their values, the program's */
	uint32_t n_options;
	struct jit_log error, info;
	bool is_module;
};

/* CUDA_ERROR_INVALID_VALUE: there is no such option, or too many. */
CUresult jit_read(struct jit *jit, const CUjit_option *options, void **values, unsigned n);

/* Hands logs and values to the program; `logs' has the error log first. */
struct jit_answer {
	uint32_t result, values[WIRE_JIT_OPTIONS_MAX];
	uint32_t error_filled, info_filled, error_length;
	uint8_t logs[2 * WIRE_JIT_LOG_MAX];
	uint32_t n_logs;
};
void jit_write(const struct jit *jit, const struct jit_answer *answer);

#endif
