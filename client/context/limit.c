/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The limits of a context. Any thread of the application.
 *
 * Invariant: what a program reads back is decided here, as the driver decides it (measured on an
 * H100 with driver 580); the server decides what the GPU gets.
 */

#include "calls_context.h"
#include "context.h"
#include "limit_bound.h"
#include "client/util/log.h"
#include "send_context.h"

#define STACK_UNIT 16u
#define PRINTF_UNIT 256u
#define PRINTF_LEAST ((size_t)512 << 10)
#define HEAP_UNIT ((size_t)64 << 10)
#define HEAP_LEAST ((size_t)4 << 20)
#define LAUNCHES_LEAST 32u
#define FETCH_MOST 128u
/* Cache lines persist in sixteenths of the cache. */
#define PERSISTING_PARTS 16

/* A value too large for that stays, and is refused later. */
static size_t round_up(size_t value, size_t unit)
{
	return value > SIZE_MAX - unit ? value : (value + unit - 1) / unit * unit;
}

static size_t persisting_unit(const struct device *device)
{
	int size = 0;

	(void)device_attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &size);
	return (size_t)MAX(size / PERSISTING_PARTS, 1);
}

static size_t persisting_most(const struct device *device)
{
	int size = 0;

	(void)device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, &size);
	return (size_t)MAX(size, 0);
}

/*
 * The value that a limit gets when a program sets it. CUDA_ERROR_INVALID_VALUE: it is out of
 * range. CUDA_ERROR_NOT_PERMITTED: the limit can only be queried.
 */
static CUresult limit_round(
	const struct device *device, CUlimit limit, size_t value, size_t *ret_value)
{
	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		*ret_value = round_up(value, STACK_UNIT);
		return CUDA_SUCCESS;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		*ret_value = MAX(round_up(value, PRINTF_UNIT), PRINTF_LEAST);
		return CUDA_SUCCESS;
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		*ret_value = MAX(round_up(value, HEAP_UNIT), HEAP_LEAST);
		return CUDA_SUCCESS;
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
		*ret_value = MAX(value, LAUNCHES_LEAST);
		return CUDA_SUCCESS;
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
		*ret_value = value;
		return value <= FETCH_MOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
		*ret_value = round_up(value, persisting_unit(device));
		return value <= persisting_most(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_NOT_PERMITTED;
	}
}

/* CUDA_ERROR_UNSUPPORTED_LIMIT: this GPU or driver does not have it. */
static CUresult check_limit(const struct context *context, CUlimit limit)
{
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)limit >= DEVICE_LIMITS || context->device->limits[limit] == ~0ull)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	return CUDA_SUCCESS;
}

CUresult local_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct context *context = context_current;
	CUresult result = check_limit(context, limit);

	if (result != CUDA_SUCCESS)
		return result;
	*pvalue = context->limits_set >> limit & 1 ? context->limits[limit]
						   : context->device->limits[limit];
	return CUDA_SUCCESS;
}

/*
 * These three limits affect kernels. They belong to the GPU and so to all clients;
 * requests only raise them.
 */
static CUresult raise_limit(const struct context *context, CUlimit limit, size_t value)
{
	CUresult result;

	if (limit > CU_LIMIT_MALLOC_HEAP_SIZE || value <= context->device->limits[limit])
		return CUDA_SUCCESS;
	result = send_limit_raise(context->device->index, (uint32_t)limit, value);
	if (result != CUDA_SUCCESS && value > limit_bound(limit))
		log_warn("the GPU's %s cannot grow to %zu bytes: all clients share it, and a "
			 "client may request at most %llu MiB",
			limit == CU_LIMIT_MALLOC_HEAP_SIZE ? "heap" : "printf buffer", value,
			(unsigned long long)limit_bound(limit) >> 20);
	/* The heap and the buffer keep their sizes once any client's kernels have used them. */
	if (result == CUDA_ERROR_INVALID_VALUE && limit != CU_LIMIT_STACK_SIZE) {
		log_warn("the GPU's %s cannot grow to %zu bytes: other clients are using it",
			limit == CU_LIMIT_MALLOC_HEAP_SIZE ? "heap" : "printf buffer", value);
		return CUDA_SUCCESS;
	}
	return result;
}

CUresult local_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct context *context = context_current;
	CUresult result = check_limit(context, limit);

	if (result == CUDA_SUCCESS)
		result = limit_round(context->device, limit, value, &value);
	if (result == CUDA_SUCCESS)
		result = raise_limit(context, limit, value);
	if (result != CUDA_SUCCESS)
		return result;
	context->limits[limit] = value;
	context->limits_set |= 1u << limit;
	return CUDA_SUCCESS;
}
