/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Passes options of the compiler to the driver, and its logs to the client. A worker.
 *
 * Invariant: no option goes to the driver whose value the driver would take for an address.
 */

#include "jit.h"

#include <string.h>

_Static_assert(WIRE_JIT_OPTIONS_MAX == 16, "values[16] in cuda.spec");
_Static_assert(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES == CU_JIT_ERROR_LOG_BUFFER + 1 &&
		       CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES == CU_JIT_INFO_LOG_BUFFER + 1,
	"cuda.h");

/* The size passed to the driver does not include the final NUL, which always stays. */
static char *add_log(struct jit *jit, struct log_buffer *log, char *bytes, uint32_t size,
	CUjit_option buffer_option)
{
	log->bytes = bytes;
	log->size = size;
	if (size == 0)
		return bytes + 1;
	jit->options[jit->n] = buffer_option;
	jit->values[jit->n++] = bytes;
	log->at = jit->n;
	/* The option for the size directly follows that for the buffer. */
	jit->options[jit->n] = (CUjit_option)(buffer_option + 1);
	jit->values[jit->n++] = (void *)(uintptr_t)size;
	return bytes + size + 1;
}

void jit_init(struct jit *jit, char *bytes, uint32_t error_size, uint32_t info_size)
{
	bytes = add_log(jit, &jit->error, bytes, error_size, CU_JIT_ERROR_LOG_BUFFER);
	add_log(jit, &jit->info, bytes, info_size, CU_JIT_INFO_LOG_BUFFER);
	jit->first = jit->n;
}

static bool option_is_number(uint32_t name)
{
	switch (name) {
	case CU_JIT_MAX_REGISTERS:
	case CU_JIT_THREADS_PER_BLOCK:
	case CU_JIT_WALL_TIME:
	case CU_JIT_OPTIMIZATION_LEVEL:
	case CU_JIT_TARGET_FROM_CUCONTEXT:
	case CU_JIT_TARGET:
	case CU_JIT_FALLBACK_STRATEGY:
	case CU_JIT_GENERATE_DEBUG_INFO:
	case CU_JIT_LOG_VERBOSE:
	case CU_JIT_GENERATE_LINE_INFO:
	case CU_JIT_CACHE_MODE:
	case CU_JIT_POSITION_INDEPENDENT_CODE:
	case CU_JIT_MIN_CTA_PER_SM:
	case CU_JIT_MAX_THREADS_PER_BLOCK:
	case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
		return true;
	default:
		return false;
	}
}

bool jit_put(struct jit *jit, const struct jit_option *options, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!option_is_number(options[i].name) || jit->n == JIT_MAX)
			return false;
		jit->options[jit->n] = (CUjit_option)options[i].name;
		jit->values[jit->n++] = (void *)(uintptr_t)options[i].value;
	}
	return true;
}

void jit_values(const struct jit *jit, uint32_t n, uint32_t *values)
{
	for (uint32_t i = 0; i < n; i++)
		values[i] = (uint32_t)(uintptr_t)jit->values[jit->first + i];
}

/* Copies a log; returns its length. The driver may count another length. */
static uint32_t log_take(
	const struct jit *jit, const struct log_buffer *log, uint8_t *bytes, uint32_t *ret_filled)
{
	uint32_t length = (uint32_t)strnlen(log->bytes, log->size);

	*ret_filled = 0;
	if (log->size == 0)
		return 0;
	*ret_filled = (uint32_t)(uintptr_t)jit->values[log->at];
	if (*ret_filled >= log->size)
		*ret_filled = length;
	memcpy(bytes, log->bytes, length);
	return length;
}

void jit_logs(const struct jit *jit, uint32_t *ret_error_filled, uint32_t *ret_info_filled,
	uint32_t *ret_error_length, uint8_t *logs, uint32_t *ret_n_logs)
{
	uint32_t length = log_take(jit, &jit->error, logs, ret_error_filled);

	*ret_error_length = length;
	*ret_n_logs = length + log_take(jit, &jit->info, logs + length, ret_info_filled);
}
