/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Contexts as the runtime uses them: the driver's measured results for primary
 * contexts, the stack of each thread, and the end of a context.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "calls_context.h"
#include "wire.h"
#include "client/context/context.h"
#include "client/context/share.h"
#include "client/stream/event.h"
#include "client/stream/green.h"
#include "client/stream/stream.h"
#include "client/memory/ipc.h"
#include "client/memory/memory.h"
#include "client/memory/pool.h"
#include "client/array/array.h"
#include "client/array/texture.h"
#include "client/module/library.h"
#include "client/graph/exec.h"
#include "client/graph/graph_memory.h"
#include "send.h"

struct server_link server;

CUresult server_link_fault(const struct server_link *link, uint32_t fault)
{
	(void)link;
	return (CUresult)fault;
}

static struct page page;
static struct device devices[2];
static unsigned n_waits, n_frees;
static bool storage_was_current;

struct device *device_get(CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < 2 ? &devices[ordinal] : NULL;
}

const struct device_facts *device_facts(const struct device *device)
{
	return &page.device[device->index];
}

static bool is_per_context;
static uint32_t groups_now; /* the groups that the environment allows */
static uint32_t groups_of_shares[WIRE_CONTEXT_SHARES_MAX]; /* 0: no share has that number */

uint32_t share_sms(const struct device *device)
{
	return context_current && context_current->null ? context_current->n_sms
							: share_sms_of_process(device);
}

uint32_t share_sms_of_process(const struct device *device)
{
	(void)device;
	return 132;
}

bool share_is_per_context(void)
{
	return is_per_context;
}

uint32_t share_groups_now(const struct device *device)
{
	(void)device;
	return groups_now;
}

CUresult send_context_share_create(
	uint32_t share, uint32_t device, uint32_t n_groups, uint32_t *ret_n_sms)
{
	assert_int_equal(device, 0);
	assert_int_equal(groups_of_shares[share], 0);
	groups_of_shares[share] = n_groups;
	*ret_n_sms = 8 * n_groups;
	return CUDA_SUCCESS;
}

CUresult send_context_share_destroy(uint32_t share)
{
	assert_int_not_equal(groups_of_shares[share], 0);
	groups_of_shares[share] = 0;
	return CUDA_SUCCESS;
}

static struct stream *null_stream;
static CUresult null_result;

CUresult stream_open_own_null(struct context *context)
{
	context->null = null_result == CUDA_SUCCESS ? null_stream : NULL;
	return null_result;
}

CUresult device_open(struct device *device)
{
	device->is_open = 1;
	return CUDA_SUCCESS;
}

CUresult streams_wait_device(unsigned device)
{
	(void)device;
	n_waits++;
	return CUDA_SUCCESS;
}

void greens_end_context(struct context *context)
{
	assert_int_equal(context->is_active, 1);
}

void streams_new_wait(struct context *context, struct event *event)
{
	assert_int_equal(context->is_active, 0);
	assert_null(event);
}

void streams_end_context(struct context *context)
{
	assert_int_equal(context->is_active, 0);
}

void memory_end_context(struct context *context)
{
	assert_int_equal(context->is_active, 0);
	n_frees++;
}

void modules_end_context(struct context *context)
{
	assert_int_equal(context->is_active, 0);
}

void execs_end_context(const struct context *context)
{
	assert_int_equal(context->is_active, 0);
}

void graph_memories_end_context(const struct context *context)
{
	assert_int_equal(context->is_active, 0);
}

void stream_open_null(struct context *context, unsigned device)
{
	(void)context;
	(void)device;
}

void pools_reclaim(void)
{
}

bool device_reaches(const struct device *device, const struct device *other)
{
	(void)device;
	(void)other;
	return true;
}

CUresult device_attribute(const struct device *device, unsigned attribute, int *ret_value)
{
	(void)device;
	(void)attribute;
	*ret_value = 0;
	return CUDA_SUCCESS;
}

/* No test gives up what the GPU still uses. */
bool execs_free_ended(void)
{
	return false;
}

bool streams_free_ended(void)
{
	return false;
}

bool pools_free_ended(void)
{
	return false;
}

bool ipc_free_closed(bool may_ask)
{
	(void)may_ask;
	return false;
}

CUresult graph_memory_free(uint64_t address, struct stream *stream)
{
	(void)address;
	(void)stream;
	return CUDA_ERROR_INVALID_VALUE;
}

void events_end_context(struct context *context)
{
	assert_int_equal(context->is_active, 0);
}

static uint64_t raised;
static CUresult raise_result;

CUresult send_limit_raise(uint32_t device, uint32_t limit, uint64_t value)
{
	(void)device;
	assert_true(limit <= CU_LIMIT_MALLOC_HEAP_SIZE);
	raised = value;
	return raise_result;
}

void textures_end_context(struct context *context)
{
	assert_int_equal(context->is_active, 0);
}

void arrays_end_context(struct context *context)
{
	assert_int_equal(context->is_active, 0);
}

static int setup(void **state)
{
	(void)state;
	server.page = shm_at((uintptr_t)&page);
	for (unsigned i = 0; i < 2; i++) {
		devices[i].index = i;
		devices[i].primary = context_new(&devices[i], (CUdevice)i, true);
		memset(devices[i].limits, 0xff, sizeof(devices[i].limits));
		devices[i].limits[CU_LIMIT_STACK_SIZE] = 1024;
	}
	return 0;
}

static void note_current(CUcontext context, void *key, void *value)
{
	(void)key;
	(void)value;
	storage_was_current = (CUcontext)context_named_current() == context;
}

static void test_primary(void **state)
{
	CUcontext handle = (CUcontext)devices[0].primary, context;
	struct context *named;
	unsigned version;
	int key;

	(void)state;
	/* The runtime calls cuCtxSetCurrent() before it retains. */
	assert_int_equal(local_cuCtxSetCurrent(handle), CUDA_SUCCESS);
	assert_ptr_equal(context_named_current(), handle);
	assert_int_equal(context_named(NULL, &named), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxGetApiVersion(handle, &version), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(primary_release(&devices[0]), CUDA_ERROR_INVALID_CONTEXT);

	assert_int_equal(primary_retain(&context, &devices[0]), CUDA_SUCCESS);
	assert_ptr_equal(context, handle);
	assert_int_equal(local_cuCtxGetApiVersion(handle, &version), CUDA_SUCCESS);
	assert_true(version >= 3020);
	assert_int_equal(local_cuCtxDestroy_v2(handle), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(primary_retain(&context, &devices[0]), CUDA_SUCCESS);
	assert_int_equal(primary_release(&devices[0]), CUDA_SUCCESS);
	assert_true(context_is_active(devices[0].primary));

	assert_int_equal(
		storage_put(&devices[0].primary->storage, &key, NULL, note_current), CUDA_SUCCESS);
	assert_int_equal(primary_release(&devices[0]), CUDA_SUCCESS);
	assert_true(storage_was_current);
	assert_true(n_waits > 0 && n_frees == 1);
	assert_false(context_is_active(devices[0].primary));
	assert_ptr_equal(context_named_current(), handle);
	assert_int_equal(local_cuCtxSetCurrent(NULL), CUDA_SUCCESS);
}

static void test_reset(void **state)
{
	CUcontext context;

	(void)state;
	assert_int_equal(primary_retain(&context, &devices[1]), CUDA_SUCCESS);
	assert_int_equal(local_cuDevicePrimaryCtxReset_v2(&devices[1]), CUDA_SUCCESS);
	assert_false(context_is_active(devices[1].primary));
	/* The runtime then releases and retains again. */
	(void)primary_release(&devices[1]);
	assert_int_equal(primary_retain(&context, &devices[1]), CUDA_SUCCESS);
	assert_true(context_is_active(devices[1].primary));
	assert_false(context_flags_are_valid(0x100));
}

static void test_stack(void **state)
{
	CUcontext first, second, popped;

	(void)state;
	assert_int_equal(local_cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(local_cuCtxPushCurrent_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(local_cuCtxCreate_v2(&first, CU_CTX_SCHED_SPIN, 0), CUDA_SUCCESS);
	assert_int_equal(context_current->flags, CU_CTX_SCHED_SPIN);
	assert_int_equal(local_cuCtxCreate_v2(&second, 0, 1), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxPushCurrent_v2(first), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
	assert_ptr_equal(popped, first);
	assert_int_equal(local_cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
	assert_ptr_equal(popped, second);
	assert_ptr_equal(context_named_current(), first);
	/* Setting replaces the top of the stack; setting NULL leaves the rest. */
	assert_int_equal(local_cuCtxSetCurrent(second), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxDestroy_v2(second), CUDA_SUCCESS);
	assert_null(context_named_current());
	assert_int_equal(local_cuCtxPushCurrent_v2(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(local_cuCtxDestroy_v2(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(local_cuCtxDestroy_v2(first), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxSetCurrent((CUcontext)&page), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_limits(void **state)
{
	CUcontext context;
	size_t value;

	(void)state;
	assert_int_equal(local_cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	assert_int_equal(value, 1024);
	assert_int_equal(local_cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	assert_int_equal(value, 4096);
	assert_int_equal(local_cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE),
		CUDA_ERROR_UNSUPPORTED_LIMIT);
	assert_int_equal(local_cuCtxSetLimit((CUlimit)100, 1), CUDA_ERROR_INVALID_VALUE);
	/* A request for more than the GPU has, in units of 16; a refused limit stays unset. */
	raised = 0;
	assert_int_equal(local_cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1000), CUDA_SUCCESS);
	assert_int_equal(raised, 0);
	assert_int_equal(local_cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 5000), CUDA_SUCCESS);
	assert_int_equal(raised, 5008);
	raise_result = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(local_cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 9000), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(local_cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	assert_int_equal(value, 5008);
	assert_int_equal(local_cuCtxDestroy_v2(context), CUDA_SUCCESS);
}

/* A primary context has all SMs, and can be detached from any number of times. */
static void test_shared(void **state)
{
	CUexecAffinityParam param;
	CUcontext context, again;

	(void)state;
	assert_int_equal(primary_retain(&context, &devices[0]), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxSetCurrent(context), CUDA_SUCCESS);
	assert_int_equal(
		local_cuCtxGetExecAffinity(&param, CU_EXEC_AFFINITY_TYPE_SM_COUNT), CUDA_SUCCESS);
	assert_int_equal(param.param.smCount.val, 132);
	assert_int_equal(local_cuCtxGetExecAffinity(&param, CU_EXEC_AFFINITY_TYPE_MAX),
		CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	assert_int_equal(local_cuCtxAttach(&again, 0), CUDA_SUCCESS);
	assert_ptr_equal(again, context);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(local_cuCtxDetach(context), CUDA_SUCCESS);
	assert_int_equal(
		local_cuCtxGetExecAffinity(&param, CU_EXEC_AFFINITY_TYPE_SM_COUNT), CUDA_SUCCESS);
	assert_int_equal(primary_release(&devices[0]), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxSetCurrent(NULL), CUDA_SUCCESS);
}

/* A context has the limits of its process. Requests may not be lower than what is allowed. */
static void test_affinity(void **state)
{
	CUexecAffinityParam params[2] = {
		{.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = 132},
		{.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = 1000},
	};
	CUctxCreateParams create = {.execAffinityParams = params, .numExecAffinityParams = 1};
	CUcontext context;

	(void)state;
	assert_int_equal(local_cuCtxCreate_v3(&context, params, 2, 0, 0), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxDestroy_v2(context), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxCreate_v4(&context, &create, 0, 0), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxDestroy_v2(context), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxCreate_v4(&context, NULL, 0, 0), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxDestroy_v2(context), CUDA_SUCCESS);
	params[1].param.smCount.val = 131;
	assert_int_equal(local_cuCtxCreate_v3(&context, params, 2, 0, 0),
		CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	create.numExecAffinityParams = 2;
	assert_int_equal(local_cuCtxCreate_v4(&context, &create, 0, 0),
		CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	params[0].type = CU_EXEC_AFFINITY_TYPE_MAX;
	assert_int_equal(local_cuCtxCreate_v3(&context, params, 1, 0, 0),
		CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	assert_int_equal(local_cuCtxCreate_v3(&context, NULL, 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		local_cuCtxCreate_v3(&context, params, -1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		local_cuCtxCreate_v3(&context, params, 1, 0, 7), CUDA_ERROR_INVALID_DEVICE);
}

static unsigned count_shares(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < WIRE_CONTEXT_SHARES_MAX; i++)
		n += groups_of_shares[i] > 0;
	return n;
}

static void check_share(uint32_t affinity, uint32_t groups, uint32_t n_sms)
{
	CUexecAffinityParam param = {
		.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = affinity};
	CUcontext context;

	assert_int_equal(local_cuCtxCreate_v3(&context, &param, 1, 0, 0), CUDA_SUCCESS);
	assert_int_equal(groups_of_shares[0], groups);
	assert_int_equal(
		local_cuCtxGetExecAffinity(&param, CU_EXEC_AFFINITY_TYPE_SM_COUNT), CUDA_SUCCESS);
	assert_int_equal(param.param.smCount.val, n_sms);
	assert_int_equal(local_cuCtxDestroy_v2(context), CUDA_SUCCESS);
	assert_int_equal(count_shares(), 0);
}

/* The smallest of the limits of the environment, the program and the process, in whole groups. */
static void test_share(void **state)
{
	static struct page *const anything = &page;
	int is_supported = 0;

	(void)state;
	null_stream = (struct stream *)anything;
	is_per_context = true;
	page.device[0].sm_group = 8;
	page.device[0].n_sm_groups = 16;
	groups_now = UINT32_MAX / 8;
	assert_int_equal(local_cuDeviceGetExecAffinitySupport(
				 &is_supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0),
		CUDA_SUCCESS);
	assert_int_equal(is_supported, 1);
	check_share(132, 0, 132);
	check_share(131, 16, 128);
	check_share(35, 4, 32);
	check_share(1, 1, 8);
	groups_now = 2;
	check_share(35, 2, 16);
	check_share(8, 1, 8);
}

/* A share that cannot be created is released, and its number is used again. */
static void test_share_ends(void **state)
{
	CUcontext contexts[WIRE_CONTEXT_SHARES_MAX], more;

	(void)state;
	groups_now = 2;
	null_result = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(local_cuCtxCreate_v2(&more, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(count_shares(), 0);
	null_result = CUDA_SUCCESS;
	for (unsigned i = 0; i < WIRE_CONTEXT_SHARES_MAX; i++)
		assert_int_equal(local_cuCtxCreate_v2(&contexts[i], 0, 0), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxCreate_v2(&more, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(local_cuCtxDestroy_v2(contexts[7]), CUDA_SUCCESS);
	assert_int_equal(local_cuCtxCreate_v2(&contexts[7], 0, 0), CUDA_SUCCESS);
	for (unsigned i = 0; i < WIRE_CONTEXT_SHARES_MAX; i++)
		assert_int_equal(local_cuCtxDestroy_v2(contexts[i]), CUDA_SUCCESS);
	assert_int_equal(count_shares(), 0);
	while (local_cuCtxPopCurrent_v2(NULL) == CUDA_SUCCESS)
		continue;
}

/* The primary context takes the limit of the environment each time that it becomes active. */
static void test_share_of_primary(void **state)
{
	CUcontext context;

	(void)state;
	for (groups_now = 1; groups_now < 4; groups_now++) {
		assert_int_equal(primary_retain(&context, &devices[0]), CUDA_SUCCESS);
		assert_int_equal(primary_retain(&context, &devices[0]), CUDA_SUCCESS);
		assert_int_equal(groups_of_shares[0], groups_now);
		assert_int_equal(count_shares(), 1);
		assert_int_equal(primary_release(&devices[0]), CUDA_SUCCESS);
		assert_int_equal(count_shares(), 1);
		assert_int_equal(primary_release(&devices[0]), CUDA_SUCCESS);
		assert_int_equal(count_shares(), 0);
	}
	is_per_context = false;
	assert_int_equal(primary_retain(&context, &devices[0]), CUDA_SUCCESS);
	assert_int_equal(count_shares(), 0);
	assert_int_equal(primary_release(&devices[0]), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_primary),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_stack),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_affinity),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_share_ends),
		cmocka_unit_test(test_share_of_primary),
	};

	return cmocka_run_group_tests_name("client_context", tests, setup, NULL);
}
