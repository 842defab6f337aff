/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Libraries loaded with options, and modules. A worker.
 *
 * Invariant: no option goes to the driver whose value it would take for an
 * address.
 */

#include <string.h>

#include "library.h"
#include "session.h"

_Static_assert(WIRE_JIT_OPTIONS_MAX == 16, "values[16] in cuda.spec");

/* A name that no code has; the driver refuses broken code before it looks. */
#define NO_KERNEL "\x01"

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

static bool options_put(struct library *library, const struct jit_option *options, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!option_is_number(options[i].name))
			return false;
		library->jit[library->n_jit] = (CUjit_option)options[i].name;
		library->jit_values[library->n_jit++] = (void *)(uintptr_t)options[i].value;
	}
	return true;
}

/* A module's code is compiled when it is loaded, a library's perhaps later. */
static CUresult try_code(struct session *session, struct library *library)
{
	CUkernel kernel;
	CUresult result = session->current ? place_enter(session, session->current) : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS)
		result = cuda.cuLibraryGetKernel(&kernel, library->deferred.library, NO_KERNEL);
	return result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result;
}

/* Copies a log; returns its length. What the driver counts may be something else. */
static uint32_t log_take(const struct library *library, const struct log_buffer *log,
	uint8_t *bytes, uint32_t *ret_filled)
{
	uint32_t length = (uint32_t)strnlen(log->bytes, log->size);

	*ret_filled = 0;
	if (log->size == 0)
		return 0;
	*ret_filled = (uint32_t)(uintptr_t)library->jit_values[log->at];
	if (*ret_filled >= log->size)
		*ret_filled = length;
	memcpy(bytes, log->bytes, length);
	return length;
}

CUresult do_library_compile(struct session *session, uint32_t id, uint64_t size, uint32_t is_module,
	uint32_t error_size, uint32_t info_size, const struct jit_option *options,
	uint32_t n_options, uint32_t *ret_refusal, uint32_t values[16], uint32_t *ret_error_filled,
	uint32_t *ret_info_filled, uint32_t *ret_error_length, uint8_t *logs, uint32_t n_logs_max,
	uint32_t *ret_n_logs)
{
	struct library *library;
	bool is_loaded = false;
	unsigned first;
	CUresult result = library_new(
		session, id, size, MAX(error_size, LIBRARY_LOG_SIZE), info_size, &library);

	(void)n_logs_max;
	if (result != CUDA_SUCCESS)
		return result;
	first = library->n_jit;
	if (!options_put(library, options, n_options)) {
		library_drop(session, library);
		return CUDA_ERROR_INVALID_VALUE;
	}
	result = library_load(library);
	is_loaded = result == CUDA_SUCCESS;
	if (is_loaded && is_module)
		result = try_code(session, library);
	for (uint32_t i = 0; i < n_options; i++)
		values[i] = (uint32_t)(uintptr_t)library->jit_values[first + i];
	*ret_refusal = result;
	*ret_error_length = log_take(library, &library->log, logs, ret_error_filled);
	*ret_n_logs = *ret_error_length +
		      log_take(library, &library->info, logs + *ret_error_length, ret_info_filled);
	if (result == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	library_log_refusal(session, library, result);
	if (is_loaded)
		library_end(session, library);
	else
		library_drop(session, library);
	return result_is_fault(result) ? result : CUDA_SUCCESS;
}
