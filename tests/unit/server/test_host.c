/* SPDX-License-Identifier: Apache-2.0 */

/* Pinned memory from messages of a client, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/driver/owner.h"
#include "server/memory/host.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)

static uint64_t region, region_size;

static uint64_t new_region(uint64_t size, uint64_t after)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	const struct frame_memory *frame = (const void *)reader.bytes;
	uint64_t address = 0;
	int fd;

	assert_int_equal(send_host_region(size, after, 0, &address, &region_size), CUDA_SUCCESS);
	frame_reader_init(&reader, frame_close_fd);
	assert_int_equal(frame_read_wait(&reader, harness.client, 1000), 0);
	assert_int_equal(reader.head.type, FRAME_MEMORY);
	assert_int_equal(frame->address, address);
	assert_int_equal(frame->size, region_size);
	fd = frame_take_fd(&reader, 0);
	/* The server has mapped it in this process already. */
	assert_int_equal(shm_check(fd, region_size), 0);
	assert_int_equal(shm_map_part(fd, 0, address, region_size), -EEXIST);
	close(fd);
	assert_int_equal(owner_of(address).session, harness.session->id);
	return address;
}

static int open_session(void **state)
{
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	if (send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest,
		    limits) != CUDA_SUCCESS)
		return -1;
	region = new_region(1, 0);
	return 0;
}

static int close_session(void **state)
{
	(void)state;
	harness_close();
	assert_int_equal(owner_of(region).session, 0);
	return 0;
}

/* Its address; is_present: its pages are made present and pinned. */
static uint64_t alloc(uint64_t size, bool is_present)
{
	uint64_t address = 0, start, span;
	uint32_t is_pinned;

	assert_int_equal(
		send_host_alloc(size, 0, &address, &start, &span, &is_pinned), CUDA_SUCCESS);
	assert_true(range_ok(address - start, size, span));
	assert_true(range_ok(start - region, span, region_size));
	if (!is_present)
		return address;
	if (!is_pinned)
		memset((void *)(uintptr_t)start, 0, span);
	assert_int_equal(send_host_pin(0, address), CUDA_SUCCESS);
	return address;
}

static CUresult settle(void)
{
	harness_serve();
	return harness_late_error();
}

static CUresult copy(uint64_t dst, uint64_t src, uint64_t size)
{
	send_copy_device(0, dst, src, size);
	return settle();
}

static void test_copies(void **state)
{
	uint64_t a = alloc(3 * MIB, true), b = alloc(4 * MIB, true), device = 0;

	(void)state;
	assert_int_equal(send_memory_alloc(0, 4 * MIB, &device), CUDA_SUCCESS);
	assert_int_equal(copy(device, a, 3 * MIB), CUDA_SUCCESS);
	assert_int_equal(copy(b, device, 4 * MIB), CUDA_SUCCESS);
	assert_int_equal(copy(b, a, 3 * MIB), CUDA_SUCCESS);
	send_fill(0, b, 1, 4, MIB, 0, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	/* Two neighbouring allocations are two registrations. */
	assert_int_equal(copy(device, a, 4 * MIB + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(copy(b, region + region_size, 1), CUDA_ERROR_INVALID_VALUE);
	send_host_free(a);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(copy(b, a, 1), CUDA_ERROR_INVALID_VALUE);
	send_host_free(a);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_host_free(HOST_SPACE_END - 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_memory_free(b);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
}

/* Drivers before CUDA 12.8 have none. */
static void test_without_batches(void **state)
{
	uint64_t a = alloc(2 * MIB, true), b = alloc(2 * MIB, true);
	const struct cuda_api real = cuda;

	(void)state;
	memcpy(&cuda.cuMemcpyBatchAsync, &(CUresult(*)(void)){cuda_api_absent}, sizeof(void *));
	fake_calls.copies = 0;
	assert_int_equal(copy(b, a, MIB), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 1);
	send_copy_box(0, b, a, 64, 64, 0, 0, 32, 100, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 1 + 100);
	cuda = real;
}

/* Its pages must belong to the client; otherwise they would be charged to the server. */
static void test_absent(void **state)
{
	uint64_t a = alloc(3 * MIB, false), device = 0;

	(void)state;
	assert_int_equal(send_memory_alloc(0, MIB, &device), CUDA_SUCCESS);
	assert_int_equal(copy(device, a, MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_host_pin(0, a), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(copy(device, a, MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_host_pin(0, a + 4 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_host_pin(1, a), CUDA_ERROR_INVALID_CONTEXT);
}

/* Pinned piece by piece, copied and set piece by piece. */
static void test_pieces(void **state)
{
	const uint64_t size = 3 * HOST_PIECE;
	uint64_t small = alloc(2 * MIB, true), a = alloc(size, true), device = 0;
	int n = fake_counts.registrations;

	(void)state;
	assert_true(n >= 5); /* four of them are its own, because it begins within a piece */
	assert_int_equal(send_memory_alloc(0, size, &device), CUDA_SUCCESS);
	fake_calls.copies = fake_calls.fills = 0;
	assert_int_equal(copy(device, a, size), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 4);
	assert_int_equal(copy(small, a + HOST_PIECE - 2 * MIB - 2, 4), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 6);
	send_fill(0, a, 1, 4, size / 4, 0, 1);
	send_fill(0, a, 1, 1, 16, MIB, 64);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.fills, 4 + 64);
	send_host_free(a);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_counts.registrations, n);
	assert_int_equal(alloc(size, true), a);
	assert_int_equal(fake_counts.registrations, n);
}

/* Boxes with as few copies as the ends of pieces allow: whole slices, rows, parts of a row. */
static void test_pieces_of_boxes(void **state)
{
	const uint64_t size = 3 * HOST_PIECE, pitch = 3 * MIB;
	uint64_t a = alloc(size, true), device = 0;

	(void)state;
	assert_int_equal(a % HOST_PIECE, 0);
	assert_int_equal(send_memory_alloc(0, size, &device), CUDA_SUCCESS);
	fake_calls.copies = 0;
	/* 32 is not a multiple of 3: ten rows, one in two parts, and again. */
	send_copy_box(0, device, a, pitch, pitch, 0, 0, pitch - 1, 32, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 1 + 2 + 1 + 2 + 1);
	fake_calls.copies = 0;
	send_copy_box(0, a, device, pitch, pitch, 4, 4, MIB, 4, 8);
	assert_int_equal(settle(), CUDA_SUCCESS);
	/* Two slices, one in two runs of rows, and again. */
	assert_int_equal(fake_calls.copies, 1 + 2 + 1 + 2 + 1);
	fake_calls.copies = 0;
	send_copy_rows_in(0, a + HOST_PIECE - MIB, MIB, STAGING_SMALL, MIB / 2, 4);
	send_copy_rows_out(0, a + HOST_PIECE - MIB - 1, MIB, STAGING_SMALL, MIB / 2, 4);
	send_copy_box(0, device, a + HOST_PIECE - 1, 0, 0, 0, 0, 2, 1, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	/* Within host memory always row by row. */
	assert_int_equal(fake_calls.copies, 4 + 5 + 2);
	fake_calls.copies = 0;
	send_copy_box(0, a, a + MIB, 2 * MIB, 2 * MIB, 0, 0, MIB, 16, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 16);
	send_copy_box(0, device, a, pitch, pitch, 4, 4, MIB, 4, 9);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
}

/* Unused memory of a session is returned, and comes back as zeros. */
static void test_trim(void **state)
{
	uint64_t a = alloc(4 * MIB, true), kept = alloc(100, true);
	int n = fake_counts.registrations;

	(void)state;
	memset((void *)(uintptr_t)a, 1, 4 * MIB);
	send_host_free(a);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_true(harness.session->has_unused_host);
	host_trim(harness.session);
	assert_false(harness.session->has_unused_host);
	assert_true(fake_counts.registrations < n);
	assert_true(host_has(harness.session, kept, 100));
	assert_int_equal(*(const volatile uint8_t *)(uintptr_t)a, 0);
}

static void test_regions(void **state)
{
	uint64_t other = new_region(VA_WINDOW + 1, region + 2 * VA_WINDOW), address, size, start;
	struct quota *all = resource_of_server(RESOURCE_HOST_WINDOWS);
	uint64_t limit = all->limit;
	uint32_t is_pinned;

	(void)state;
	assert_true(other >= region + 2 * VA_WINDOW);
	assert_int_equal(region_size, 2 * VA_WINDOW);
	send_host_region_end(other + 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_host_region_end(other);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(owner_of(other).session, 0);
	assert_int_equal(send_host_alloc(VA_WINDOW + 1, 0, &address, &start, &size, &is_pinned),
		CUDA_ERROR_OUT_OF_MEMORY);
	/* One process leaves half to others; with the existing one, that is one too many. */
	all->limit = 2 * (WIRE_HOST_MAX >> VA_WINDOW_SHIFT);
	assert_int_equal(
		send_host_region(WIRE_HOST_MAX, 0, 0, &address, &size), CUDA_ERROR_OUT_OF_MEMORY);
	all->limit = limit;
	region_size = VA_WINDOW;
	alloc(1, true);
	send_host_region_end(region);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_copies, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_without_batches, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_absent, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_pieces, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_pieces_of_boxes, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_trim, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_regions, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
