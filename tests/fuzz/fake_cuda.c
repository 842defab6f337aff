/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The counting driver: its tables, its device, its start.
 *
 * Invariant: every range in a copy, a fill or a launch is mapped, or is a library's
 * variable; otherwise abort(), which a fuzzer detects.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_tables.h"

struct fake_counts fake_counts;
struct fake_switches fake_switches = {.memory = FAKE_MEMORY};
struct fake_calls fake_calls;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct table reserved, mapped, registered, globals;
uint64_t used_memory;

static int context_object;

void must(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "fake driver: the server asked for %s\n", what);
		abort();
	}
}

void table_add(struct table *table, uint64_t address, uint64_t size)
{
	must(size > 0 && table->n < FAKE_RANGES_MAX, "more than a test may");
	for (unsigned i = 0; i < table->n; i++)
		must(address + size <= table->list[i].address ||
				address >= table->list[i].address + table->list[i].size,
			"a range that overlaps another");
	table->list[table->n++] = (struct range){address, size};
}

uint64_t table_remove(struct table *table, uint64_t address)
{
	for (unsigned i = 0; i < table->n; i++)
		if (table->list[i].address == address) {
			uint64_t size = table->list[i].size;

			table->list[i] = table->list[--table->n];
			return size;
		}
	must(false, "a range that is not there");
	return 0;
}

bool table_has_byte(const struct table *table, uint64_t address, uint64_t *ret_end)
{
	for (unsigned i = 0; i < table->n; i++)
		if (range_ok(address - table->list[i].address, 1, table->list[i].size)) {
			*ret_end = table->list[i].address + table->list[i].size;
			return true;
		}
	return false;
}

void must_have(const struct table *table, uint64_t address, uint64_t size, const char *what)
{
	uint64_t at = address, end = address + size;

	must(size > 0 && end > address, what);
	while (at < end)
		must(table_has_byte(table, at, &at), what);
}

/* Whether it is memory of the GPU: mapped, or a variable. */
void must_be_device(uint64_t address, uint64_t size)
{
	uint64_t end;

	if (table_has_byte(&globals, address, &end))
		must(address + size <= end, "memory past a variable");
	else
		must_have(&mapped, address, size, "memory that is not mapped");
}

/* Like the driver, copies and fills only within one registration. */
void must_be_pinned(uint64_t address, uint64_t size, const char *what)
{
	uint64_t end = 0;

	must(table_has_byte(&registered, address, &end), what);
	must(size <= end - address, "across two registrations");
}

void must_be_reached(uint64_t address, uint64_t size)
{
	uint64_t end;

	if (table_has_byte(&registered, address, &end))
		must_be_pinned(address, size, "pageable memory");
	else
		must_be_device(address, size);
}

CUresult fake_begin(void)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	result = (CUresult)fake_switches.fail_next;
	fake_switches.fail_next = 0;
	return result;
}

void fake_endp(int *held)
{
	(void)held;
	pthread_mutex_unlock(&lock);
}

uint64_t fake_handle(void)
{
	static uint64_t last = 0x1000;

	return ++last;
}

void *fake_alloc(size_t size)
{
	void *memory = aligned_alloc(16, ALIGN_UP(size, 16u));

	must(memory != NULL, "memory that the test has not");
	memset(memory, 0, size);
	return memory;
}

static CUresult get_version(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

static CUresult init(unsigned flags)
{
	(void)flags;
	return CUDA_SUCCESS;
}

static CUresult get_count(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

static CUresult device_handle(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return CUDA_SUCCESS;
}

static CUresult get_name(char *name, int len, CUdevice device)
{
	(void)device;
	snprintf(name, (size_t)len, "Fake GPU");
	return CUDA_SUCCESS;
}

static CUresult total_memory(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = FAKE_MEMORY;
	return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH:
		*value = FAKE_LINE_MAX;
		break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = FAKE_SMS;
		break;
	default:
		*value = 1024;
	}
	return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *context, CUdevice device)
{
	BEGIN();
	(void)device;
	fake_counts.contexts++;
	*context = (CUcontext)&context_object;
	return CUDA_SUCCESS;
}

static CUresult release(CUdevice device)
{
	BEGIN();
	(void)device;
	fake_counts.contexts--;
	return CUDA_SUCCESS;
}

static CUresult set_flags(CUdevice device, unsigned flags)
{
	(void)device;
	(void)flags;
	return CUDA_SUCCESS;
}

static _Thread_local CUcontext current = (CUcontext)&context_object;

static CUresult set_current(CUcontext context)
{
	must(context == (CUcontext)&context_object || fake_is_green(context),
		"a context that is not there");
	current = context;
	return CUDA_SUCCESS;
}

bool fake_is_in_green(void)
{
	return fake_is_green(current);
}

static CUresult get_current(CUcontext *context)
{
	BEGIN();
	*context = current;
	return CUDA_SUCCESS;
}

static size_t
	limits[CU_LIMIT_MAX]; /* under the lock: tests read them while the deferred thread runs */

static CUresult get_limit(size_t *value, CUlimit limit)
{
	if (limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	pthread_mutex_lock(&lock);
	*value = limits[limit] ? limits[limit] : 1024;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static CUresult set_limit(CUlimit limit, size_t value)
{
	BEGIN();
	fake_calls.limits_set++;
	if (fake_switches.fixed_limits & (1u << limit))
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_STACK_SIZE && fake_switches.stack_max &&
		value > fake_switches.stack_max)
		return CUDA_ERROR_INVALID_VALUE;
	limits[limit] = value;
	return CUDA_SUCCESS;
}

static CUresult priorities(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return CUDA_SUCCESS;
}

static void set_device_calls(void)
{
	cuda.cuDriverGetVersion = get_version;
	cuda.cuInit = init;
	cuda.cuDeviceGet = device_handle;
	cuda.cuDeviceGetCount = get_count;
	cuda.cuDeviceGetName = get_name;
	cuda.cuDeviceTotalMem_v2 = total_memory;
	cuda.cuDeviceGetAttribute = get_attribute;
	cuda.cuDevicePrimaryCtxRetain = retain;
	cuda.cuDevicePrimaryCtxRelease_v2 = release;
	cuda.cuDevicePrimaryCtxSetFlags_v2 = set_flags;
	cuda.cuCtxSetCurrent = set_current;
	cuda.cuCtxGetCurrent = get_current;
	cuda.cuCtxGetLimit = get_limit;
	cuda.cuCtxSetLimit = set_limit;
	cuda.cuCtxGetStreamPriorityRange = priorities;
}

static void *no_symbol(void *library, const char *name)
{
	(void)library;
	(void)name;
	return NULL;
}

struct fake_counts fake_counts_now(void)
{
	struct fake_counts now;

	pthread_mutex_lock(&lock);
	now = fake_counts;
	pthread_mutex_unlock(&lock);
	return now;
}

void fake_set_memory(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	fake_switches.memory = bytes;
	pthread_mutex_unlock(&lock);
}

void fake_cuda_start(void)
{
	cuda_api_load(&cuda, NULL, no_symbol);
	set_device_calls();
	fake_memory_start();
	fake_array_start();
	fake_work_start();
	fake_graph_start();
	fake_green_start();
	fake_link_start();
	must(devices_init() == CUDA_SUCCESS, "no device");
}
