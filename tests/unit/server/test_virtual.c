/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that a client maps, over the counting driver: which bytes it may name when,
 * mappings that wait for work to end, and what is left at the end.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/session/session.h"
#include "server/device/device_quota.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define UNIT (2ull << 20)
#define GIB (1ull << 30)
#define ALL 3u /* access */

static uint64_t base;

static int open_session(void **state)
{
	uint64_t heap, heap_size, granularity, limits[16], size;
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	memset(&fake_calls, 0, sizeof(fake_calls));
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	assert_int_equal(send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least,
				 &greatest, limits),
		CUDA_SUCCESS);
	assert_int_equal(granularity, UNIT);
	assert_int_equal(send_address_region(5 * GIB, &base, &size), CUDA_SUCCESS);
	assert_int_equal(size, 8 * GIB);
	return 0;
}

/* The harness checks that the driver has everything back. */
static int close_session(void **state)
{
	(void)state;
	harness_close();
	return 0;
}

static CUresult settle(void)
{
	harness_serve();
	return harness_late_error();
}

static bool has(uint64_t address, uint64_t size)
{
	send_fill(0, address, 0, 1, size, 0, 1);
	return settle() == CUDA_SUCCESS;
}

static CUresult create(uint32_t id, uint32_t device, uint64_t size, uint32_t is_exportable)
{
	uint32_t granted = 7;
	CUresult result = send_allocation_create(id, device, size, is_exportable, 0, &granted);

	assert_int_equal(granted, result == CUDA_SUCCESS ? 0 : 7);
	return result;
}

static void map(uint32_t id, uint64_t address, uint64_t size)
{
	assert_int_equal(create(id, 0, size, 0), CUDA_SUCCESS);
	assert_int_equal(send_allocation_map(id, address, size), CUDA_SUCCESS);
	assert_int_equal(send_allocation_access(address, size, 0, ALL), CUDA_SUCCESS);
}

static void test_access(void **state)
{
	(void)state;
	assert_false(has(base, 1));
	assert_int_equal(create(1, 0, UNIT, 0), CUDA_SUCCESS);
	assert_int_equal(send_allocation_map(1, base, UNIT), CUDA_SUCCESS);
	assert_false(has(base, 1));
	assert_int_equal(send_allocation_access(base, UNIT, 0, ALL), CUDA_SUCCESS);
	assert_true(has(base, UNIT));
	assert_false(has(base, UNIT + 1));
	assert_false(has(base - 1, 2));
	map(2, base + 2 * UNIT, UNIT);
	assert_false(has(base, 3 * UNIT));
	map(3, base + UNIT, UNIT);
	assert_true(has(base + UNIT, 1));
	assert_int_equal(send_allocation_access(base, 2 * UNIT, 0, 0), CUDA_SUCCESS);
	assert_false(has(base, 1));
	assert_true(has(base + 2 * UNIT, UNIT));
	send_allocation_unmap(base, 3 * UNIT);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_false(has(base + 2 * UNIT, 1));
	assert_int_equal(fake_counts_now().mappings, 0);
	assert_int_equal(fake_counts_now().allocations, 3);
}

static void test_wrong(void **state)
{
	(void)state;
	assert_int_equal(create(1, 0, UNIT + 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(create(1, 1, UNIT, 0), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(create(1, 0, 64 * GIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(create(1, 0, 2 * UNIT, 0), CUDA_SUCCESS);
	assert_int_equal(create(1, 0, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_allocation_map(1, base, UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_allocation_map(1, base + 8 * GIB, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_allocation_map(1, base + 8 * GIB - UNIT, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_allocation_map(2, base, UNIT), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(send_allocation_map(1, base + UNIT, 2 * UNIT), CUDA_SUCCESS);
	assert_int_equal(send_allocation_map(1, base, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_allocation_map(1, base + 2 * UNIT, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_allocation_access(base, 2 * UNIT, 0, ALL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_allocation_access(base + UNIT, UNIT, 0, ALL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_allocation_access(base + UNIT, 2 * UNIT, 1, ALL), CUDA_ERROR_INVALID_VALUE);
	send_allocation_unmap(base + UNIT, UNIT);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_allocation_unmap(base, 4 * UNIT);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_address_region_end(base);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_allocation_unmap(base + UNIT, 2 * UNIT);
	send_address_region_end(base);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().reservations, 1);
}

/* The counting driver aborts if memory is unmapped while work runs. */
static void test_closing(void **state)
{
	(void)state;
	map(1, base, UNIT);
	send_allocation_release(1);
	assert_true(has(base, UNIT));
	fake_switches.is_busy = true;
	assert_true(has(base, UNIT));
	send_allocation_unmap(base, UNIT);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_false(has(base, 1));
	assert_int_equal(fake_counts_now().mappings, 1);
	assert_int_equal(fake_counts_now().allocations, 1);
	send_allocation_unmap(base, UNIT);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(create(2, 0, UNIT, 0), CUDA_SUCCESS);
	assert_int_equal(send_allocation_map(2, base + UNIT, UNIT), CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().mappings, 2);
	fake_switches.is_busy = false;
	assert_int_equal(send_allocation_map(2, base, UNIT), CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().mappings, 2);
	assert_int_equal(fake_counts_now().allocations, 1);
	assert_false(has(base, 1));
	/* And an unmapping that is pending when the session ends. */
	send_allocation_unmap(base, 2 * UNIT);
	fake_switches.is_busy = true;
	assert_int_equal(settle(), CUDA_SUCCESS);
}

/* An allocation without a handle and a mapping is freed when memory is short. */
static void test_memory_is_reclaimed(void **state)
{
	(void)state;
	map(1, base, UNIT);
	send_allocation_release(1);
	fake_switches.memory = UNIT;
	assert_int_equal(create(2, 0, UNIT, 0), CUDA_ERROR_OUT_OF_MEMORY);
	send_allocation_unmap(base, UNIT);
	assert_int_equal(create(2, 0, UNIT, 0), CUDA_SUCCESS);
}

static void test_descriptors(void **state)
{
	uint32_t device = 7, properties = 7;
	int fd, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)state;
	assert_int_equal(create(1, 0, 2 * UNIT, 1), CUDA_SUCCESS);
	assert_int_equal(send_allocation_export(1), CUDA_SUCCESS);
	fd = harness_read_memory(1, 2 * UNIT);
	assert_true(fd >= 0);
	harness_send_memory(5, 0, fd);
	assert_int_equal(send_allocation_import(5, &device, &properties), CUDA_SUCCESS);
	assert_int_equal(device, 0);
	assert_int_equal(properties, 0);
	assert_int_equal(send_allocation_map(5, base, 2 * UNIT), CUDA_SUCCESS);
	assert_int_equal(send_allocation_access(base, 2 * UNIT, 0, ALL), CUDA_SUCCESS);
	assert_true(has(base, 2 * UNIT));
	close(fd);
	/* A descriptor that is not memory of the driver. */
	harness_send_memory(6, 0, null);
	assert_int_equal(send_allocation_import(6, &device, &properties), CUDA_ERROR_INVALID_VALUE);
	/* A frame of another message than the next one. */
	harness_send_memory(6, 0, null);
	assert_int_equal(
		send_allocation_import(7, &device, &properties), CUDA_ERROR_MPS_RPC_FAILURE);
	close(null);
}

static uint64_t charged(void)
{
	return quota_used(&harness.session->quotas[0]->quota);
}

/* Nobody can know how long a descriptor keeps memory: it counts once, to the session's end. */
static void test_export_stays_charged(void **state)
{
	uint32_t device, properties;
	int fds[2];

	(void)state;
	assert_int_equal(charged(), 0);
	assert_int_equal(create(1, 0, 2 * UNIT, 1), CUDA_SUCCESS);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(send_allocation_export(1), CUDA_SUCCESS);
		fds[i] = harness_read_memory(1, 2 * UNIT);
		assert_true(fds[i] >= 0);
	}
	assert_int_equal(charged(), 2 * UNIT);
	harness_send_memory(5, 0, fds[0]);
	assert_int_equal(send_allocation_import(5, &device, &properties), CUDA_SUCCESS);
	assert_int_equal(charged(), 2 * UNIT);
	assert_int_equal(send_allocation_map(1, base, 2 * UNIT), CUDA_SUCCESS);
	send_allocation_release(1);
	send_allocation_release(5);
	send_allocation_unmap(base, 2 * UNIT);
	assert_int_equal(create(2, 0, UNIT, 1), CUDA_SUCCESS);
	send_allocation_release(2);
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(charged(), 2 * UNIT);
	for (unsigned i = 0; i < 2; i++)
		close(fds[i]);
}

/* A descriptor that the driver cannot have made: the session ends. */
static void test_other_descriptors(void **state)
{
	uint32_t device, properties;
	int pipes[2];

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	harness_send_memory(6, 0, pipes[0]);
	assert_int_equal(
		send_allocation_import(6, &device, &properties), CUDA_ERROR_MPS_RPC_FAILURE);
	close(pipes[0]);
	close(pipes[1]);
}

/* The driver is asked for compression, and then for what it granted. */
static void test_compression(void **state)
{
	uint32_t granted = 7;

	(void)state;
	assert_int_equal(send_allocation_create(1, 0, UNIT, 0, 1, &granted), CUDA_SUCCESS);
	assert_int_equal(granted, 1);
	fake_switches.is_plain = true;
	assert_int_equal(send_allocation_create(2, 0, UNIT, 1, 1, &granted), CUDA_SUCCESS);
	assert_int_equal(granted, 0);
	fake_switches.is_plain = false;
	granted = 7;
	assert_int_equal(
		send_allocation_create(2, 0, UNIT, 1, 1, &granted), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(granted, 7);
	assert_int_equal(send_allocation_map(1, base, UNIT), CUDA_SUCCESS);
	assert_int_equal(send_allocation_access(base, UNIT, 0, ALL), CUDA_SUCCESS);
	assert_true(has(base, UNIT));
	assert_int_equal(fake_counts_now().allocations, 2);
}

static void test_regions(void **state)
{
	uint64_t limit = resource_of_server(RESOURCE_DEVICE_WINDOWS)->limit;
	uint64_t address, size, taken;

	(void)state;
	/* Where ThreadSanitizer leaves little room, regions have to be smaller than that. */
	if (DEVICE_SPACE_END - DEVICE_SPACE < 16ull << 40)
		skip();
	while (send_address_region(1ull << 40, &address, &size) == CUDA_SUCCESS)
		;
	/* One process leaves half to others. */
	taken = account_taken(harness.session->account, RESOURCE_DEVICE_WINDOWS);
	assert_in_range(taken, limit / 2 - (1ull << 40 >> VA_WINDOW_SHIFT) + 1, limit / 2);
	assert_int_equal(send_address_region(1, &address, &size), CUDA_SUCCESS);
	assert_int_equal(size, 4 * GIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_access, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_wrong, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_closing, open_session, close_session),
		cmocka_unit_test_setup_teardown(
			test_memory_is_reclaimed, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_descriptors, open_session, close_session),
		cmocka_unit_test_setup_teardown(
			test_export_stays_charged, open_session, close_session),
		cmocka_unit_test_setup_teardown(
			test_other_descriptors, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_compression, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_regions, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
