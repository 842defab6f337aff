/* SPDX-License-Identifier: Apache-2.0 */

/* Memory that is short for a while, over the counting driver. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/driver/device.h"
#include "tests/fuzz/session_harness.h"
#include "tests/fuzz/fake_cuda.h"
#include "open_session.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_memory_on_its_way_is_waited_for, open_session, close_session),
	};

	return cmocka_run_group_tests_name("server memory", tests, NULL, NULL);
}
