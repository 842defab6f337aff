/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sessions from their client's view, over the counting driver: objects, order
 * between streams, late errors, malformed messages, the end.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "messages.h"
#include "server/session/fault.h"
#include "server/device/device.h"
#include "server/schedule/stream_pool.h"
#include "server/stream/pending_wait.h"
#include "server/stream/waiter.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)
#define STREAM_A DEVICES_MAX
#define STREAM_B (DEVICES_MAX + 1)

static const char image[] = ".version 8.0 // an image";
static uint64_t heap;

static int open_session(bool with_worker)
{
	uint64_t heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	memset(&fake_calls, 0, sizeof(fake_calls));
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(with_worker);
	return send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest,
		       limits) != CUDA_SUCCESS;
}

static int open_quiet(void **state)
{
	(void)state;
	return open_session(false);
}

static int open_running(void **state)
{
	(void)state;
	return open_session(true);
}

static int close_session(void **state)
{
	(void)state;
	harness_close();
	return 0;
}

static uint64_t alloc(uint64_t size)
{
	uint64_t address = 0;

	assert_int_equal(send_memory_alloc(0, size, &address), CUDA_SUCCESS);
	return address;
}

/* Serves all messages; returns the error. */
static CUresult settle(void)
{
	harness_serve();
	return harness_late_error();
}

static void load(uint32_t library, uint32_t kernel)
{
	int32_t attributes[16];
	uint32_t param_bytes, n_params, prints;
	struct param_layout params[8];

	harness_send_image(image, sizeof(image));
	assert_int_equal(send_library_load(library, sizeof(image)), CUDA_SUCCESS);
	assert_int_equal(send_library_kernel(library, kernel, "kernel", attributes), CUDA_SUCCESS);
	assert_int_equal(send_kernel_params(kernel, &param_bytes, &prints, params, 8, &n_params),
		CUDA_SUCCESS);
	assert_int_equal(param_bytes, FAKE_PARAM_BYTES);
	assert_int_equal(n_params, 3);
	assert_int_equal(params[1].offset, 8);
	assert_int_equal(attributes[0], 1024);
}

static CUresult launch(uint32_t stream, uint32_t kernel)
{
	static const uint32_t one[3] = {1, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES];

	memset(params, 1, sizeof(params));
	send_launch(stream, kernel, one, one, 0, params, sizeof(params));
	return settle();
}

static void test_copies(void **state)
{
	uint64_t a = alloc(MIB), b = alloc(3 * MIB);
	long n_pinned;

	(void)state;
	send_copy_in(0, a, 0, STAGING_SMALL);
	assert_int_equal(settle(), CUDA_SUCCESS);
	n_pinned = fake_counts.registrations;
	send_copy_device(0, b, a, MIB);
	send_copy_out(0, b, STAGING_SIZE - 4096, 4096);
	send_copy_out(0, b, STAGING_SMALL, 4096);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 4);
	/* The large part, at its first use. */
	assert_int_equal(fake_counts.registrations, n_pinned + 1);
	send_copy_in(0, a, 4096, STAGING_SMALL);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_out(0, b, STAGING_SIZE - 4096, 4097);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_in(0, b, UINT32_MAX, 2);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_in(0, b + 4 * MIB, 0, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_device(0, b, a, UINT64_MAX);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_in(STREAM_A, b, 0, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(fake_calls.copies, 4);
}

static void test_fills(void **state)
{
	uint64_t a = alloc(2 * MIB);

	(void)state;
	send_fill(0, a, 1, 4, MIB / 2, 0, 1);
	send_fill(0, a, 1, 1, 100, 1024, 2048);
	send_fill(0, a, 1, 2, 512, 1024, 2048);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.fills, 3);
	send_fill(0, a, 1, 1, 100, 1024, 2049);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_fill(0, a, 1, 4, MIB / 2 + 1, 0, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_fill(0, a + 1, 1, 2, 1, 0, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_fill(0, a, 1, 4, 1ull << 62, 0, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_fill(0, a, 1, 1, 2048, 1024, 2);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_fill(0, a, 1, 1, 1, 1ull << 63, 4);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
}

static void test_boxes(void **state)
{
	uint64_t a = alloc(2 * MIB), b = alloc(2 * MIB);

	(void)state;
	send_copy_box(0, b, a, 1024, 512, 16, 32, 100, 16, 128);
	send_copy_box(0, b, a, 0, 0, 0, 0, 2 * MIB, 1, 1);
	send_copy_rows_in(0, a, 4096, 1024, 512, 512);
	send_copy_rows_out(0, a, 4096, 1024, 512, 512);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 4);
	/* One slice, row or byte too many; rows and slices that overlap; sums that wrap. */
	send_copy_box(0, b, a, 1024, 512, 16, 32, 100, 16, 129);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_box(0, b, a, 0, 0, 0, 0, 2 * MIB + 1, 1, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_box(0, b, a, 99, 512, 16, 32, 100, 16, 2);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_box(0, b, a, 1024, 512, 15, 32, 100, 16, 2);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_box(0, b, a, 1ull << 32, 512, 1ull << 32, 32, 100, 16, 2);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_box(0, b, a, 1ull << 63, 1ull << 63, 1, 1, 1, 3, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_rows_in(0, b, 4096, 1024, 512, 513);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_rows_out(0, a, 511, 1024, 512, 2);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_copy_rows_in(0, a, 4096, WIRE_STAGING_SIZE - 1024, 512, 3);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
}

static void test_launches(void **state)
{
	static const uint32_t one[3] = {1, 1, 1}, many[3] = {1024, 2, 1}, wide[3] = {1025, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES + 8] = {0};

	(void)state;
	load(1, 1);
	assert_int_equal(launch(0, 1), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_param_sum, FAKE_PARAM_BYTES);
	send_launch(0, 1, one, one, 0, params, FAKE_PARAM_BYTES - 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_launch(0, 1, one, one, 0, params, FAKE_PARAM_BYTES + 8);
	assert_int_equal(settle(), CUDA_SUCCESS);
	send_launch(0, 1, one, many, 0, params, FAKE_PARAM_BYTES);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_launch(0, 1, wide, one, 0, params, FAKE_PARAM_BYTES);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_launch(0, 1, one, one, 1025, params, FAKE_PARAM_BYTES);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(0, 2), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(fake_calls.launches, 2);
}

static void test_launches_with(void **state)
{
	static const uint32_t none[3], one[3] = {1, 1, 1}, two[3] = {2, 1, 1}, many[3] = {2, 2, 5};
	static const uint32_t wide[3] = {1025, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES] = {0};
	uint64_t bytes;
	int32_t value;

	(void)state;
	load(1, 1);
	send_launch_with(0, 1, one, one, 0, 1, none, 0, 0, 0, 0, params, FAKE_PARAM_BYTES);
	send_launch_with(
		0, 1, two, one, 0, WIRE_NODE_ATTR_ALL, two, 2, -5, 0, 0, params, FAKE_PARAM_BYTES);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.launches, 2);
	assert_int_equal(fake_calls.remote_launches, 1);
	send_launch_with(0, 1, one, one, 0, 2, two, 0, 0, 0, 0, params, FAKE_PARAM_BYTES);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	send_launch_with(0, 1, two, one, 0, 2, none, 0, 0, 0, 0, params, FAKE_PARAM_BYTES);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	send_launch_with(0, 1, many, one, 0, 2, many, 0, 0, 0, 0, params, FAKE_PARAM_BYTES);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	send_launch_with(0, 1, wide, one, 0, 1, none, 0, 0, 0, 0, params, FAKE_PARAM_BYTES);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_launch_with(0, 1, one, one, 0, 1, none, 0, 0, 0, 0, params, FAKE_PARAM_BYTES - 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_kernel_clusters(1, 0, 0, two, one, 0, two, &value), CUDA_SUCCESS);
	assert_int_equal(send_kernel_available_shared(1, 0, 2, 64, &bytes), CUDA_SUCCESS);
}

static CUresult compile(uint32_t library, uint32_t option, uint32_t error_size)
{
	static uint8_t logs[2 * WIRE_JIT_LOG_MAX];
	const struct jit_option options[] = {{CU_JIT_MAX_REGISTERS, 32}, {option, 1}};
	uint32_t refusal = 1, values[16], filled[2], length = 1, n = 1;
	CUresult result;

	harness_send_image(image, sizeof(image));
	result = send_library_compile(library, sizeof(image), 1, error_size, error_size, options, 2,
		&refusal, values, &filled[0], &filled[1], &length, logs, sizeof(logs), &n);
	if (result == CUDA_SUCCESS) {
		assert_int_equal(values[0], 32);
		assert_int_equal(length + n, 0);
	}
	return result == CUDA_SUCCESS ? (CUresult)refusal : result;
}

static void test_options(void **state)
{
	(void)state;
	assert_int_equal(compile(1, CU_JIT_OPTIMIZATION_LEVEL, WIRE_JIT_LOG_MAX), CUDA_SUCCESS);
	assert_int_equal(compile(2, CU_JIT_WALL_TIME, 0), CUDA_SUCCESS);
	/* The driver would use its value as an address. */
	assert_int_equal(compile(3, CU_JIT_INFO_LOG_BUFFER, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(compile(3, CU_JIT_GLOBAL_SYMBOL_NAMES, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(compile(3, 1000, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_counts_now().libraries, 2);
	assert_int_equal(compile(3, CU_JIT_TARGET, 1), CUDA_SUCCESS);
}

static void test_libraries(void **state)
{
	uint64_t address, size;
	int32_t attributes[16];

	(void)state;
	load(1, 1);
	load(2, 2);
	assert_int_equal(fake_counts.libraries, 2);
	assert_int_equal(send_library_global(1, 0, "variable", &address, &size), CUDA_SUCCESS);
	send_copy_in(0, address, 0, FAKE_GLOBAL_SIZE);
	assert_int_equal(settle(), CUDA_SUCCESS);
	send_copy_in(0, address, 0, FAKE_GLOBAL_SIZE + 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_library_global(1, 0, "missing", &address, &size), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(send_library_kernel(1, 3, "missing", attributes), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(send_library_kernel(1, 2, "kernel", attributes), CUDA_ERROR_INVALID_VALUE);
	harness_send_image(image, sizeof(image));
	assert_int_equal(send_library_load(1, sizeof(image)), CUDA_ERROR_INVALID_VALUE);
	send_library_unload(1);
	assert_int_equal(launch(0, 1), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(launch(0, 2), CUDA_SUCCESS);
	send_copy_in(0, address, 0, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	harness_send_image("no NUL", 6);
	assert_int_equal(send_library_load(1, 6), CUDA_ERROR_INVALID_IMAGE);
}

/* The rules of the legacy stream cost an event only if both kinds of stream have work. */
static void test_null_stream_order(void **state)
{
	uint64_t a = alloc(MIB);

	(void)state;
	send_stream_create(STREAM_A, 0, 0, 0);
	send_stream_create(STREAM_B, 0, CU_STREAM_NON_BLOCKING, 0);
	for (int i = 0; i < 5; i++)
		send_fill(0, a, 1, 1, 1, 0, 1);
	send_fill(STREAM_B, a, 1, 1, 1, 0, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.waits, 0);
	send_fill(STREAM_A, a, 1, 1, 1, 0, 1); /* waits for the NULL stream */
	send_fill(STREAM_A, a, 1, 1, 1, 0, 1);
	settle();
	assert_int_equal(fake_calls.waits, 1);
	send_fill(0, a, 1, 1, 1, 0, 1); /* waits for A */
	send_fill(0, a, 1, 1, 1, 0, 1);
	settle();
	assert_int_equal(fake_calls.waits, 2);
	send_fill(STREAM_B, a, 1, 1, 1, 0, 1);
	settle();
	assert_int_equal(fake_calls.waits, 2);
	send_fill(STREAM_A, a, 1, 1, 1, 0, 1);
	send_seqno_write(0, 1); /* waits for A; no stream waits for it */
	send_fill(STREAM_A, a, 1, 1, 1, 0, 1);
	settle();
	assert_int_equal(fake_calls.waits, 4);
	assert_true(harness_wait(0, 1));
}

static int streams_used(void)
{
	return fake_counts.streams - (int)device_get(0)->stream_pool->n;
}

static void test_streams(void **state)
{
	uint64_t a = alloc(MIB);

	(void)state;
	send_stream_create(STREAM_A, 0, 0, 0);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(streams_used(), 0);
	send_seqno_write(STREAM_A, 3);
	assert_true(harness_wait(STREAM_A, 3));
	assert_int_equal(fake_calls.write_values, 0);
	send_fill(STREAM_A, a, 1, 1, 1, 0, 1);
	send_seqno_write(STREAM_A, 4);
	assert_true(harness_wait(STREAM_A, 4));
	assert_int_equal(fake_calls.write_values, 1);
	fake_switches.is_busy = true;
	send_stream_destroy(STREAM_A);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(streams_used(), 1);
	/* Seqnos of a new stream with the same ID come after those of the old one. */
	send_stream_create(STREAM_A, 0, CU_STREAM_NON_BLOCKING, 0);
	send_seqno_write(STREAM_A, 5);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.waits, 1);
	send_stream_create(STREAM_A, 0, 0, 0);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_stream_create(3, 0, 0, 0);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_stream_create(STREAM_B, 1, 0, 0);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_stream_destroy(0);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
}

static void test_events(void **state)
{
	uint64_t a = alloc(MIB);
	float time = 0;

	(void)state;
	send_event_create(1, 0);
	send_event_create(2, CU_EVENT_DISABLE_TIMING);
	send_event_wait(0, 1); /* never recorded: nothing to wait for */
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.waits, 0);
	assert_int_equal(send_event_elapsed(1, 2, &time), CUDA_ERROR_INVALID_HANDLE);
	send_fill(0, a, 1, 1, 1, 0, 1);
	send_event_record(1, 0, 7);
	assert_true(harness_wait(0, 7));
	send_event_record(2, 0, 8);
	send_event_wait(0, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.waits, 1);
	assert_int_equal(send_event_elapsed(1, 2, &time), CUDA_SUCCESS);
	send_event_create(1, 0);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
}

static void test_memory_comes_back(void **state)
{
	uint64_t free_bytes, total, a = alloc(6 * MIB), b;

	(void)state;
	fake_switches.memory = 8 * MIB;
	send_memory_free(a);
	send_memory_info(0, &free_bytes, &total);
	assert_int_equal(free_bytes, 8 * MIB);
	b = alloc(8 * MIB); /* does not fit beside the memory that is kept */
	send_memory_free(b);
	send_memory_free(b);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	send_memory_free(0);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_memory_alloc(0, 9 * MIB, &a), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(send_memory_alloc(1, 1, &a), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_late_errors_are_counted(void **state)
{
	(void)state;
	send_memory_free(1);
	send_stream_destroy(99);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(harness.late_errors, 2);
	assert_int_equal(settle(), CUDA_SUCCESS);
}

static void test_malformed(void **state)
{
	struct {
		struct message_head head;
		uint64_t field;
	} message = {.head = {.size = 24, .op = OP_MEMORY_FREE, .reply = 1}};
	static const struct message_head odd[] = {
		{.size = 8, .op = OP_MEMORY_FREE},
		{.size = 17, .op = OP_MEMORY_FREE},
		{.size = UINT32_MAX & ~7u, .op = OP_MEMORY_FREE},
		{.size = 16, .op = 0xffff},
		{.size = 24, .op = OP_MEMORY_FREE, .reserved = 1},
		{.size = 24, .op = OP_MEMORY_ALLOC},
	};

	(void)state;
	harness_close();
	for (unsigned i = 0; i <= ARRAY_SIZE(odd); i++) {
		open_session(false);
		/* After the messages that were served: place it there. */
		if (i < ARRAY_SIZE(odd))
			message.head = odd[i];
		shm_copy_in(ring_data(harness.session->ring) + harness.session->receiver.head,
			&message, sizeof(message));
		shm_store32(&harness.session->ring->tail, harness.session->receiver.head + 24);
		assert_int_equal(harness_serve(), -EBADMSG);
		harness_close();
	}
	open_session(false);
	shm_store32(&harness.session->ring->tail, harness.session->receiver.head + RING_SIZE + 8);
	assert_int_equal(harness_serve(), -EBADMSG);
}

/* A client with an invalid message sees the end of its connection. */
static void test_dropped(void **state)
{
	char byte;

	(void)state;
	shm_store32(&harness.session->ring->tail, 0x7ffffff8);
	shm_wake(&harness.session->ring->tail);
	assert_int_equal(recv(harness.client, &byte, 1, 0), 0);
}

static void test_no_image(void **state)
{
	(void)state;
	shutdown(harness.client, SHUT_WR);
	assert_int_equal(send_library_load(1, 100), CUDA_ERROR_MPS_RPC_FAILURE);
}

static void test_running(void **state)
{
	uint64_t a = alloc(MIB);

	(void)state;
	load(1, 1);
	send_stream_create(STREAM_A, 0, 0, 0);
	for (uint64_t i = 1; i <= 300; i++) {
		send_copy_in(STREAM_A, a, 0, 4096);
		send_launch(STREAM_A, 1, (uint32_t[]){1, 1, 1}, (uint32_t[]){1, 1, 1}, 0,
			(uint8_t[FAKE_PARAM_BYTES]){0}, FAKE_PARAM_BYTES);
		send_seqno_write(STREAM_A, i);
		send_seqno_watch(STREAM_A, i);
		if (i % 10 == 0)
			assert_true(harness_wait(STREAM_A, i));
	}
	/* A watch may be late: another thread has seen the last seqno and destroyed the stream. */
	send_stream_destroy(STREAM_A);
	send_seqno_watch(STREAM_A, 300);
	alloc(MIB);
	assert_int_equal(harness_late_error(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.launches, 300);
}

static void test_fault(void **state)
{
	uint64_t a = alloc(MIB), address;

	(void)state;
	fake_switches.fail_next = CUDA_ERROR_ILLEGAL_ADDRESS;
	send_fill(0, a, 1, 1, 1, 0, 1);
	assert_int_equal(send_memory_alloc(0, 1, &address), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(shm_load32(&harness.session->page->fault), CUDA_ERROR_ILLEGAL_ADDRESS);
	/* The other objects of this test would stay, as in a server that is replaced. */
	fault_forget();
}

/* Memory that a client freed goes back to the GPU once the client is idle. */
static void test_rest(void **state)
{
	uint64_t a = alloc(6 * MIB);

	(void)state;
	send_fill(0, a, 1, 1, 1, 0, 1);
	send_memory_free(a);
	for (int i = 0; i < 10000; i++) {
		if (fake_counts_now().mappings == 0)
			return;
		usleep(1000);
	}
	fail();
}

static bool is_asked(uint32_t stream, uint64_t ticket)
{
	return shm_load64(&harness.session->page->asked[stream]) == ticket;
}

static void has_returned(uint32_t stream, uint64_t ticket)
{
	shm_store64(&harness.session->ring->done[stream], ticket);
}

/* Its threads have left the driver, so that they take no failure meant for another call. */
static void waiters_rest(void)
{
	struct waiters *waiters = harness.session->waiters;
	bool is_idle;

	do {
		usleep(1000);
		lock_take(&waiters->lock);
		is_idle = waiters->n_queued == 0 && waiters->n_free_threads == waiters->n_threads;
		lock_release(&waiters->lock);
	} while (!is_idle);
}

static void test_host_calls(void **state)
{
	(void)state;
	send_stream_create(STREAM_A, 0, 0, 0);
	send_host_call(STREAM_A, 7);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_true(is_asked(STREAM_A, 7));
	/* Later work of the stream, and a join, come after the function has returned. */
	has_returned(STREAM_A, 7);
	send_host_call(0, WIRE_TICKET_MAX);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_true(is_asked(0, WIRE_TICKET_MAX));
	has_returned(0, WIRE_TICKET_MAX);
	/* No stream on the GPU waits for the function, but the NULL stream waits for the other
	 * stream. */
	assert_int_equal(fake_calls.waits, 1);
	assert_int_equal(send_host_call(STREAM_A, 0), CUDA_ERROR_INVALID_VALUE);
	/* The function must run in any case. */
	waiters_rest();
	fake_switches.fail_next = CUDA_ERROR_UNKNOWN;
	send_host_call(STREAM_A, 8);
	assert_int_equal(settle(), CUDA_ERROR_UNKNOWN);
	assert_true(is_asked(STREAM_A, 8));
	has_returned(STREAM_A, 8);
	send_host_call(STREAM_B, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
}

static CUresult memory_op(uint32_t operation, uint64_t address, uint64_t value, uint32_t flags)
{
	struct memory_op op = {address, value, operation, flags};

	send_memory_ops(0, &op, 1);
	return settle();
}

static void test_memory_ops(void **state)
{
	enum {
		WAIT = CU_STREAM_MEM_OP_WAIT_VALUE_32,
		WRITE = CU_STREAM_MEM_OP_WRITE_VALUE_32,
		WAIT_64 = CU_STREAM_MEM_OP_WAIT_VALUE_64,
		BARRIER = CU_STREAM_MEM_OP_BARRIER,
	};
	uint64_t a = alloc(4096), end = a + MIB * 1024;

	(void)state;
	assert_int_equal(memory_op(WRITE, a, 1, 0), CUDA_SUCCESS);
	assert_int_equal(memory_op(WRITE, a + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(memory_op(WRITE, a, 1ull << 32, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(memory_op(WRITE, end, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(memory_op(WRITE, (uintptr_t)&end, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(memory_op(WRITE, a, 1, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(memory_op(BARRIER, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(memory_op(BARRIER, a, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(memory_op(99, a, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(memory_op(WAIT, a, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
	assert_int_equal(memory_op(WAIT_64, a + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
	/* A wait that no semaphore could end. */
	assert_int_equal(memory_op(WAIT, a, 0, CU_STREAM_WAIT_VALUE_AND), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		memory_op(WAIT, a, UINT32_MAX, CU_STREAM_WAIT_VALUE_NOR), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_calls.waits, 1);
	assert_int_equal(harness.session->pending_waits->n, 1);
}

/* The list of pending waits drops those that have passed. */
static void test_many_pending_waits(void **state)
{
	struct memory_op ops[WIRE_MEMORY_OPS_MAX];
	uint64_t a = alloc(4096);

	(void)state;
	for (unsigned i = 0; i < WIRE_MEMORY_OPS_MAX; i++)
		ops[i] = (struct memory_op){a, i, CU_STREAM_MEM_OP_WAIT_VALUE_64, 0};
	for (int i = 0; i < 1000; i++) {
		send_memory_ops(0, ops, WIRE_MEMORY_OPS_MAX);
		assert_int_equal(settle(), CUDA_SUCCESS);
	}
	assert_int_equal(fake_calls.waits, 1000 * WIRE_MEMORY_OPS_MAX);
	assert_true(harness.session->pending_waits->n_max <= 4 * WIRE_MEMORY_OPS_MAX);
	assert_int_equal(shm_load64(&harness.session->page->passed[0]), 1000 * WIRE_MEMORY_OPS_MAX);
}

int main(void)
{
#define QUIET(name) cmocka_unit_test_setup_teardown(name, open_quiet, close_session)
#define RUNNING(name) cmocka_unit_test_setup_teardown(name, open_running, close_session)
	const struct CMUnitTest tests[] = {
		QUIET(test_copies),
		QUIET(test_fills),
		QUIET(test_boxes),
		QUIET(test_launches),
		QUIET(test_launches_with),
		QUIET(test_options),
		QUIET(test_libraries),
		QUIET(test_null_stream_order),
		QUIET(test_streams),
		QUIET(test_events),
		QUIET(test_memory_comes_back),
		QUIET(test_late_errors_are_counted),
		QUIET(test_malformed),
		QUIET(test_no_image),
		QUIET(test_fault),
		QUIET(test_host_calls),
		QUIET(test_memory_ops),
		QUIET(test_many_pending_waits),
		RUNNING(test_dropped),
		RUNNING(test_running),
		RUNNING(test_rest),
	};

	return cmocka_run_group_tests_name("server session", tests, NULL, NULL);
}
