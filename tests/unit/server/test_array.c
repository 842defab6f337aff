/* SPDX-License-Identifier: Apache-2.0 */

/* Arrays, textures and surfaces from messages of a client, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cuda_api.h"
#include "server/memory/host.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)
#define FLOAT CU_AD_FORMAT_FLOAT

static int open_session(void **state)
{
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	return send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest,
		       limits) != CUDA_SUCCESS;
}

/* Frees everything that a test left, because harness_close() counts. */
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

static CUresult create(
	uint32_t id, uint64_t width, uint64_t height, uint64_t depth, uint32_t levels)
{
	return send_array_create(id, 0, width, height, depth, FLOAT, 1, 0, levels);
}

/* New arrays have no bytes of others: the server overwrites them before it replies. */
static void test_clear(void **state)
{
	(void)state;
	fake_calls.copies = 0;
	assert_int_equal(create(1, 16, 16, 0, 0), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 1);
	assert_int_equal(create(2, 1024, 1024, 0, 0), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 1 + 2); /* 4 MiB */
	assert_int_equal(create(3, 512, 512, 8, 0), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 1 + 2 + 4); /* two slices at a time */
	assert_int_equal(create(4, 64, 64, 0, 3), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 1 + 2 + 4 + 3);
	assert_int_equal(create(5, 131072, 3, 0, 0), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 1 + 2 + 4 + 3 + 1);
}

static void test_refused(void **state)
{
	(void)state;
	assert_int_equal(create(1, 1ull << 40, 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_array_create(1, 0, 16, 16, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0, 0),
		CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(
		send_array_create(1, 1, 16, 16, 0, FLOAT, 1, 0, 0), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(create(1, 16, 16, 0, 0), CUDA_SUCCESS);
	assert_int_equal(create(1, 16, 16, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_counts_now().arrays, 1);
	fake_switches.fail_next = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(create(2, 16, 16, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(create(2, 16, 16, 0, 0), CUDA_SUCCESS);
	send_array_destroy(2);
	send_array_destroy(2);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
}

static void test_copies(void **state)
{
	uint64_t device = 0;

	(void)state;
	assert_int_equal(create(1, 16, 8, 0, 0), CUDA_SUCCESS);
	assert_int_equal(create(2, 16, 8, 2, 0), CUDA_SUCCESS);
	assert_int_equal(create(3, 16, 8, 0, 2), CUDA_SUCCESS);
	assert_int_equal(send_memory_alloc(0, 4096, &device), CUDA_SUCCESS);
	send_copy_array(0, 1, 0, 0, 0, 0, device, 64, 8, 64, 8, 1);
	send_copy_array(0, 2, 1, 4, 1, 1, device, 64, 8, 60, 7, 1);
	send_copy_arrays(0, 1, 2, 0, 0, 0, 0, 0, 1, 64, 8, 1);
	send_copy_array_rows(0, 1, 1, 0, 4, 0, 0, 64, 4);
	assert_int_equal(settle(), CUDA_SUCCESS);
	send_copy_array(0, 1, 0, 4, 0, 0, device, 64, 8, 64, 8, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_array(0, 1, 0, 0, UINT64_MAX, 0, device, 64, 8, 64, 8, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_array(0, 1, 0, 0, 0, 1, device, 64, 8, 64, 8, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_array(0, 1, 0, 0, 0, 0, device, 1ull << 62, 8, 64, 8, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_array(0, 1, 0, 0, 0, 0, 4096, 64, 8, 64, 8, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_arrays(0, 1, 2, 0, 0, 0, 0, 0, 2, 64, 8, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_array_rows(0, 1, 1, 0, 5, 0, 0, 64, 4);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	/* The bytes of a mipmapped array are those of its levels. */
	send_copy_array(0, 3, 0, 0, 0, 0, device, 64, 8, 64, 8, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_array(0, 9, 0, 0, 0, 0, device, 64, 8, 64, 8, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
}

/* A level keeps its array alive, in whatever order they are destroyed. */
static void test_levels(void **state)
{
	uint64_t size[3];

	(void)state;
	assert_int_equal(create(1, 16, 8, 0, 2), CUDA_SUCCESS);
	assert_int_equal(send_array_level(2, 1, 1, size), CUDA_SUCCESS);
	assert_int_equal(size[0], 8);
	assert_int_equal(size[1], 4);
	assert_int_equal(send_array_level(3, 1, 2, size), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_array_level(3, 2, 0, size), CUDA_ERROR_INVALID_HANDLE);
	send_array_destroy(1);
	send_copy_array_rows(0, 2, 0, 0, 0, 0, 0, 32, 4);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().arrays, 1);
	send_copy_array_rows(0, 2, 0, 0, 0, 0, 0, 32, 5);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_array_destroy(2);
	assert_int_equal(settle(), CUDA_SUCCESS);
}

static void test_textures(void **state)
{
	const struct sampler sampler = {.address_modes = 0x010101};
	uint64_t device = 0, value = 0, other = 0;

	(void)state;
	assert_int_equal(create(1, 16, 8, 0, 0), CUDA_SUCCESS);
	assert_int_equal(create(2, 16, 8, 0, 2), CUDA_SUCCESS);
	assert_int_equal(send_memory_alloc(0, 4096, &device), CUDA_SUCCESS);
	assert_int_equal(send_texture_create(1, 1, &sampler, 1, NULL, 0, &value), CUDA_SUCCESS);
	assert_int_equal(send_texture_create(2, 2, &sampler, 1, NULL, 0, &other), CUDA_SUCCESS);
	assert_true(value != other);
	assert_int_equal(
		send_texture_create(2, 1, &sampler, 1, NULL, 0, &value), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_surface_create(3, 1, &value), CUDA_SUCCESS);
	assert_int_equal(send_surface_create(4, 2, &value), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_texture_linear(4, 0, device, FLOAT, 1, 1024, 0, 0, 4096, &sampler, 1, &value),
		CUDA_SUCCESS);
	assert_int_equal(
		send_texture_linear(5, 0, device, FLOAT, 2, 8, 64, 64, 0, &sampler, 1, &value),
		CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().textures, 5);
	/* Memory of others, too many rows, rows that overlap. */
	assert_int_equal(
		send_texture_linear(6, 0, 4096, FLOAT, 1, 1024, 0, 0, 4096, &sampler, 1, &value),
		CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_texture_linear(6, 0, device, FLOAT, 1, 1024, 1ull << 60, 4096, 0,
				 &sampler, 1, &value),
		CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_texture_linear(6, 0, device, FLOAT, 1, 32, 4, 64, 0, &sampler, 1, &value),
		CUDA_ERROR_INVALID_VALUE);
	send_texture_destroy(1);
	send_array_destroy(1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	send_texture_destroy(1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
}

static CUresult line(uint32_t id, uint64_t address, uint32_t n_channels, uint64_t size)
{
	const struct sampler sampler = {.address_modes = 0x010101};
	uint64_t value;

	fake_calls.last_texture_size = 0;
	return send_texture_linear(
		id, 0, address, FLOAT, n_channels, size, 0, 0, size, &sampler, 1, &value);
}

/* The client may state more memory than exists: the driver gets the size that exists. */
static void test_line_is_cut(void **state)
{
	uint64_t device = 0, end;

	(void)state;
	assert_int_equal(send_memory_alloc(0, 4 * MIB, &device), CUDA_SUCCESS);
	end = device + 4 * MIB;
	assert_int_equal(line(1, device, 1, 4 * MIB), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_texture_size, 4 * MIB);
	assert_int_equal(line(2, device, 1, 4 * MIB + 1), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_texture_size, 4 * MIB);
	assert_int_equal(line(3, device, 4, 64 * MIB), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_texture_size, 4 * MIB);
	/* In whole elements, and at least one. */
	assert_int_equal(line(4, end - 72, 4, 64 * MIB), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_texture_size, 64);
	assert_int_equal(line(5, end - 8, 4, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(line(5, end, 1, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(line(5, 4096, 1, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
}

/* More elements than any texture has are refused, even in little memory. */
static void test_line_is_too_long(void **state)
{
	uint64_t device = 0;

	(void)state;
	assert_int_equal(send_memory_alloc(0, 4 * MIB, &device), CUDA_SUCCESS);
	assert_int_equal(line(1, device, 1, 4ull * FAKE_LINE_MAX), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_texture_size, 4 * MIB);
	assert_int_equal(line(2, device, 1, 4ull * FAKE_LINE_MAX + 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(line(2, device, 1, UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(line(2, device, 4, 16ull * FAKE_LINE_MAX), CUDA_SUCCESS);
}

static void map(uint32_t id, uint64_t address, bool has_access)
{
	uint32_t granted;

	assert_int_equal(send_allocation_create(id, 0, 2 * MIB, 0, 0, &granted), CUDA_SUCCESS);
	assert_int_equal(send_allocation_map(id, address, 2 * MIB), CUDA_SUCCESS);
	if (has_access)
		assert_int_equal(send_allocation_access(address, 2 * MIB, 0, 3), CUDA_SUCCESS);
}

/* As far as mappings follow each other and have access. */
static void test_line_on_mappings(void **state)
{
	uint64_t base = 0, size;

	(void)state;
	assert_int_equal(send_address_region(1, &base, &size), CUDA_SUCCESS);
	map(1, base, true);
	map(2, base + 2 * MIB, true);
	map(3, base + 4 * MIB, false);
	map(4, base + 6 * MIB, true);
	assert_int_equal(line(1, base, 1, 64 * MIB), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_texture_size, 4 * MIB);
	assert_int_equal(line(2, base + 2 * MIB, 1, 64 * MIB), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_texture_size, 2 * MIB);
	assert_int_equal(line(3, base + 4 * MIB, 1, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(line(3, base + 8 * MIB, 1, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
	send_allocation_unmap(base + 2 * MIB, 2 * MIB);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(line(3, base, 1, 64 * MIB), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_texture_size, 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_clear, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_refused, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_copies, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_levels, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_textures, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_line_is_cut, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_line_is_too_long, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_line_on_mappings, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
