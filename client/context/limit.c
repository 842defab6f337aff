/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the driver makes of the value of a limit. Any thread of the application.
 *
 * Invariant: these rules decide what a program reads back; the server decides what the GPU gets.
 * They were measured on an H100 with driver 580.
 */

#include "limit.h"

#include "base.h"

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

CUresult limit_round(const struct device *device, CUlimit limit, size_t value, size_t *ret_value)
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
