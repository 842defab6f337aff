/* SPDX-License-Identifier: Apache-2.0 */

/* Memory that is short for a while, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "open_session.h"
#include "server/device/device.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)

/* The driver has no memory for that many calls; then others have freed theirs. */
static CUresult (*real_create)(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags);
static unsigned n_creates, n_refused;

static CUresult create_late(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (++n_creates <= n_refused)
		return CUDA_ERROR_OUT_OF_MEMORY;
	device_get(0)->closing = 0;
	return real_create(handle, size, prop, flags);
}

static CUresult alloc_late(uint64_t closing)
{
	uint64_t address;
	CUresult result;

	n_creates = 0;
	device_get(0)->closing = closing;
	cuda.cuMemCreate = create_late;
	result = send_memory_alloc(0, 4 * MIB, &address);
	cuda.cuMemCreate = real_create;
	device_get(0)->closing = 0;
	return result;
}

/* A client that has ended may need a while to free its memory. */
static void test_memory_on_its_way_is_waited_for(void **state)
{
	(void)state;
	real_create = cuda.cuMemCreate;
	n_refused = 20;
	assert_int_equal(alloc_late(MIB), CUDA_SUCCESS);
	assert_int_equal(n_creates, 21);
	assert_int_equal(alloc_late(0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_in_range(n_creates, 2, 10);
}

/* Descriptors of ranges: only of memory that is the session's alone. */
static void test_dmabuf(void **state)
{
	uint64_t address, small, region, region_size, pinned, start, span;
	uint32_t is_pinned;
	int fd;

	(void)state;
	assert_int_equal(send_memory_alloc(0, 4 * MIB, &address), CUDA_SUCCESS);
	assert_int_equal(send_memory_alloc(0, 512, &small), CUDA_SUCCESS);
	assert_int_equal(send_memory_dmabuf(address + MIB, MIB), CUDA_SUCCESS);
	fd = harness_read_memory(address + MIB, MIB);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(send_memory_dmabuf(address + 3 * MIB, 16 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_memory_dmabuf(address - MIB, MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_memory_dmabuf(0, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_memory_dmabuf(UINT64_MAX, 4096), CUDA_ERROR_INVALID_VALUE);
	send_memory_free(address);
	harness_serve();
	assert_int_equal(send_memory_dmabuf(address, MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_host_region(MIB, 0, 0, &region, &region_size), CUDA_SUCCESS);
	close(harness_read_memory(region, region_size));
	assert_int_equal(send_host_alloc(MIB, 0, &pinned, &start, &span, &is_pinned), CUDA_SUCCESS);
	assert_int_equal(send_memory_dmabuf(pinned, 4096), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_memory_on_its_way_is_waited_for, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_dmabuf, open_session, close_session),
	};

	return cmocka_run_group_tests_name("server memory", tests, NULL, NULL);
}
