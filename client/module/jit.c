/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Options of the driver's compiler. Any thread of the application.
 *
 * Invariant: a log ends with a NUL within the size that the program gave.
 */

#include "jit.h"

#include <string.h>

#include "client/transport/route.h"

static uint32_t option_number(const void *value)
{
	return (uint32_t)(uintptr_t)value;
}

static CUresult option_read(struct jit *jit, CUjit_option option, void **value)
{
	switch (option) {
	case CU_JIT_INFO_LOG_BUFFER:
		jit->info.bytes = *value;
		return CUDA_SUCCESS;
	case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
		jit->info.size = option_number(*value);
		jit->info.place = value;
		return CUDA_SUCCESS;
	case CU_JIT_ERROR_LOG_BUFFER:
		jit->error.bytes = *value;
		return CUDA_SUCCESS;
	case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
		jit->error.size = option_number(*value);
		jit->error.place = value;
		return CUDA_SUCCESS;
	case CU_JIT_GLOBAL_SYMBOL_NAMES:
	case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
	case CU_JIT_GLOBAL_SYMBOL_COUNT:
		return refuse("loading with symbol addresses",
			"addresses of this process are not valid in the server");
	/* Options for the linker and its intermediate code: no effect on a single image. */
	case CU_JIT_NEW_SM3X_OPT:
	case CU_JIT_FAST_COMPILE:
	case CU_JIT_LTO:
	case CU_JIT_FTZ:
	case CU_JIT_PREC_DIV:
	case CU_JIT_PREC_SQRT:
	case CU_JIT_FMA:
	case CU_JIT_REFERENCED_KERNEL_NAMES:
	case CU_JIT_REFERENCED_KERNEL_COUNT:
	case CU_JIT_REFERENCED_VARIABLE_NAMES:
	case CU_JIT_REFERENCED_VARIABLE_COUNT:
	case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
	case CU_JIT_SPLIT_COMPILE:
		return CUDA_SUCCESS;
	default:
		break;
	}
	if ((unsigned)option >= CU_JIT_NUM_OPTIONS || jit->n_options == WIRE_JIT_OPTIONS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	jit->options[jit->n_options] = (struct jit_option){(uint32_t)option, option_number(*value)};
	jit->places[jit->n_options++] = value;
	return CUDA_SUCCESS;
}

static void jit_log_drop_empty(struct jit_log *log)
{
	if (!log->bytes || log->size == 0)
		*log = (struct jit_log){.place = log->place};
}

CUresult jit_read(struct jit *jit, const CUjit_option *options, void **values, unsigned n)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++)
		result = option_read(jit, options[i], &values[i]);
	jit_log_drop_empty(&jit->error);
	jit_log_drop_empty(&jit->info);
	return result;
}

static void log_write(
	const struct jit_log *log, const uint8_t *bytes, uint32_t length, uint32_t filled)
{
	if (log->place)
		*log->place = (void *)(uintptr_t)(log->bytes ? MIN(filled, log->size) : 0);
	if (!log->bytes)
		return;
	length = MIN(length, log->size - 1);
	memcpy(log->bytes, bytes, length);
	log->bytes[length] = 0;
}

void jit_write(const struct jit *jit, const struct jit_answer *answer)
{
	uint32_t error_length = MIN(answer->error_length, answer->n_logs);

	log_write(&jit->error, answer->logs, error_length, answer->error_filled);
	log_write(&jit->info, answer->logs + error_length, answer->n_logs - error_length,
		answer->info_filled);
	for (uint32_t i = 0; i < jit->n_options; i++)
		if (jit->options[i].name == CU_JIT_WALL_TIME ||
			jit->options[i].name == CU_JIT_THREADS_PER_BLOCK)
			*jit->places[i] = (void *)(uintptr_t)answer->values[i];
}
