/* SPDX-License-Identifier: Apache-2.0 */

/* A server's trace: the memory that is filled, and what a worker records in it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "block_stream.h"
#include "server/stream/tracer.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)
#define STREAM_A DEVICES_MAX
#define STREAM_B (DEVICES_MAX + 1)

static int memory;
static uint64_t bytes;

/* ---- a trace of the harness's session */

static int begin_trace(uint32_t uid)
{
	int fd = memfd_create("trace", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)TRACE_SIZE) < 0)
		return -1;
	memory = dup(fd);
	return trace_begin(1, fd, uid);
}

/* Returns the number of lost events. */
static uint64_t finish_trace(void)
{
	uint64_t n_lost = UINT64_MAX, id = 0;

	trace_end(1);
	if (trace_has_changed(harness.session))
		tracer_sync(harness.session);
	assert_true(trace_close_memory(&id, &n_lost));
	assert_int_equal(id, 1);
	assert_false(trace_is_ending());
	return n_lost;
}

static struct trace_chunk *read_chunk(unsigned index)
{
	static struct trace_chunk chunk;

	assert_int_equal(pread(memory, &chunk, sizeof(chunk), (off_t)index * TRACE_CHUNK_SIZE),
		sizeof(chunk));
	return &chunk;
}

static unsigned count(const struct trace_chunk *chunk, unsigned kind, unsigned flags)
{
	unsigned n = 0;

	for (unsigned i = 0; i < chunk->head.n_records; i++)
		n += chunk->records[i].kind == kind && chunk->records[i].flags == flags;
	return n;
}

static int open_session(void **state)
{
	static const char image[] = ".version 8.0 // an image";
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest, attributes[16];
	uint32_t n_sms;

	(void)state;
	memset(&fake_calls, 0, sizeof(fake_calls));
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	if (send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest,
		    limits) != CUDA_SUCCESS)
		return -1;
	harness_send_image(image, sizeof(image));
	return send_library_load(1, sizeof(image)) == CUDA_SUCCESS &&
			       send_library_kernel(1, 1, "kernel", attributes) == CUDA_SUCCESS &&
			       send_memory_alloc(0, MIB, &bytes) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

/* The harness checks that no event is left in the driver. */
static int close_session(void **state)
{
	uint64_t n_lost, id;

	(void)state;
	harness_close();
	trace_end(1);
	trace_close_memory(&id, &n_lost);
	close(memory);
	return 0;
}

static void launch(unsigned n)
{
	static const uint32_t one[3] = {1, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES] = {0};

	for (unsigned i = 0; i < n; i++)
		send_launch(0, 1, one, one, 0, params, sizeof(params));
	harness_serve();
}

static void work(uint32_t stream)
{
	send_fill(stream, bytes, 1, 4, 16, 0, 1);
	send_copy_in(stream, bytes, 0, 4096);
	send_copy_out(stream, bytes, 0, 512);
	send_copy_device(stream, bytes, bytes + 8192, 64);
	harness_serve();
}

static void test_records(void **state)
{
	const struct trace_chunk *chunk;

	(void)state;
	assert_int_equal(begin_trace(TRACE_ALL_USERS), 0);
	assert_null(harness.session->tracer);
	tracer_sync(harness.session);
	assert_non_null(harness.session->tracer);
	work(0);
	launch(7);
	launch(1);
	send_stream_create(STREAM_A, 0, CU_STREAM_NON_BLOCKING, 0);
	work(STREAM_A);
	assert_int_equal(harness_late_error(), CUDA_SUCCESS);
	assert_int_equal(finish_trace(), 0);
	assert_null(harness.session->tracer);
	chunk = read_chunk(0);
	assert_int_equal(chunk->head.magic, TRACE_MAGIC);
	assert_int_equal(chunk->head.session, harness.session->id);
	assert_int_equal(chunk->head.n_records, 10);
	assert_int_equal(count(chunk, TRACE_FILL, 0), 2);
	assert_int_equal(count(chunk, TRACE_COPY_IN, 0), 2);
	assert_int_equal(count(chunk, TRACE_COPY_OUT, 0), 2);
	assert_int_equal(count(chunk, TRACE_COPY_WITHIN, 0), 2);
	assert_int_equal(chunk->records[0].size, 64);
	assert_int_equal(chunk->records[1].size, 4096);
	assert_int_equal(chunk->records[4].kind, TRACE_LAUNCH);
	assert_int_equal(chunk->records[4].count, 7);
	assert_int_equal(chunk->records[5].count, 1);
	assert_int_equal(chunk->records[5].name, chunk->records[4].name);
	assert_string_equal(chunk->names + chunk->records[4].name, "kernel");
	assert_int_equal(chunk->records[9].stream, STREAM_A);
	for (unsigned i = 1; i < 6; i++)
		assert_true(chunk->records[i].start_ns >=
			    chunk->records[i - 1].start_ns + chunk->records[i - 1].duration_ns);
	assert_int_equal(read_chunk(1)->head.magic, 0);
}

/* No event enters a stream beside a blocked one; the work is marked without times. */
static void test_beside_a_blocked_stream(void **state)
{
	const struct trace_chunk *chunk;
	int events;

	(void)state;
	assert_int_equal(begin_trace(TRACE_ALL_USERS), 0);
	tracer_sync(harness.session);
	/* Loading its code waits until no stream is blocked. */
	launch(1);
	work(0);
	assert_true(block_stream(STREAM_A));
	events = fake_counts.events;
	launch(1);
	work(0);
	assert_int_equal(fake_counts.events, events);
	unblock_stream();
	blocked_forget_all(harness.session);
	launch(1);
	assert_int_equal(finish_trace(), 0);
	chunk = read_chunk(0);
	assert_int_equal(count(chunk, TRACE_LAUNCH, TRACE_UNTIMED), 1);
	assert_int_equal(count(chunk, TRACE_LAUNCH, 0), 2);
	assert_int_equal(count(chunk, TRACE_FILL, TRACE_UNTIMED), 1);
	assert_int_equal(count(chunk, TRACE_COPY_OUT, TRACE_UNTIMED), 1);
}

/* Of each stream the first piece is shown until the end; more pieces than are kept are marked. */
static void test_unfinished(void **state)
{
	const struct trace_chunk *chunk;

	(void)state;
	assert_int_equal(begin_trace(TRACE_ALL_USERS), 0);
	tracer_sync(harness.session);
	send_stream_create(STREAM_A, 0, CU_STREAM_NON_BLOCKING, 0);
	fake_switches.is_busy = true;
	for (unsigned i = 0; i < 600; i++) {
		send_fill(i % 2 ? STREAM_A : 0, bytes, 1, 4, 16, 0, 1);
		harness_serve();
	}
	assert_int_equal(finish_trace(), 0);
	fake_switches.is_busy = false;
	chunk = read_chunk(0);
	assert_int_equal(count(chunk, TRACE_FILL, TRACE_UNFINISHED), 2);
	assert_int_equal(count(chunk, TRACE_FILL, TRACE_UNFINISHED | TRACE_UNTIMED), 510);
	assert_int_equal(count(chunk, TRACE_FILL, TRACE_UNTIMED), 88);
}

static CUresult no_memory(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = NULL;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult no_record(CUevent event, CUstream stream)
{
	(void)event;
	(void)stream;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The work goes on if the driver refuses events, and keeps its own errors. */
static void test_driver_refuses(void **state)
{
	const struct cuda_api api = cuda;
	const struct trace_chunk *chunk;

	(void)state;
	assert_int_equal(begin_trace(TRACE_ALL_USERS), 0);
	tracer_sync(harness.session);
	cuda.cuEventCreate = no_memory;
	launch(3);
	cuda = api;
	cuda.cuEventRecord = no_record;
	launch(2);
	cuda = api;
	assert_int_equal(fake_calls.launches, 5);
	assert_int_equal(harness_late_error(), CUDA_SUCCESS);
	send_copy_in(0, 1, 0, 64);
	harness_serve();
	assert_int_equal(harness_late_error(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(finish_trace(), 0);
	chunk = read_chunk(0);
	assert_int_equal(count(chunk, TRACE_LAUNCH, TRACE_UNTIMED), 2);
	assert_int_equal(chunk->head.n_records, 2);
}

/* A session that ends says so, and has left the trace. */
static void test_end_of_a_session(void **state)
{
	const struct trace_chunk *chunk;
	uint64_t n_lost, id;

	(void)state;
	assert_int_equal(begin_trace(TRACE_ALL_USERS), 0);
	tracer_sync(harness.session);
	launch(1);
	trace_end(1);
	assert_false(trace_close_memory(&id, &n_lost));
	harness_close();
	assert_true(trace_close_memory(&id, &n_lost));
	chunk = read_chunk(0);
	assert_int_equal(chunk->head.n_records, 2);
	assert_int_equal(chunk->records[1].kind, TRACE_END);
	harness_open(false);
}

static void test_who_is_traced(void **state)
{
	uint64_t n_lost, id;

	(void)state;
	assert_int_equal(begin_trace(harness.session->uid + 1), 0);
	tracer_sync(harness.session);
	assert_null(harness.session->tracer);
	assert_false(trace_has_changed(harness.session));
	assert_int_equal(
		trace_begin(2, memfd_create("another", MFD_CLOEXEC), harness.session->uid + 1),
		-EBUSY);
	assert_int_equal(finish_trace(), 0);
	close(memory);
	assert_int_equal(begin_trace(harness.session->uid), 0);
	tracer_sync(harness.session);
	assert_non_null(harness.session->tracer);
	trace_end(1);
	assert_false(trace_close_memory(&id, &n_lost));
	assert_int_equal(finish_trace(), 0);
}

/* Each user has a trace. One of all users comes first, whoever began earlier. */
static void test_traces_of_users(void **state)
{
	const uint32_t uid = harness.session->uid;
	const struct tracer *tracer;
	uint64_t n_lost, id;

	(void)state;
	assert_int_equal(begin_trace(uid), 0);
	tracer_sync(harness.session);
	launch(1);
	tracer = harness.session->tracer;
	/* The trace of another user changes nothing. */
	assert_int_equal(trace_begin(2, memfd_create("another", MFD_CLOEXEC), uid + 1), 0);
	assert_true(trace_has_changed(harness.session));
	tracer_sync(harness.session);
	assert_false(trace_has_changed(harness.session));
	assert_ptr_equal(harness.session->tracer, tracer);
	assert_true(trace_end(2));
	tracer_sync(harness.session);
	assert_ptr_equal(harness.session->tracer, tracer);
	assert_true(trace_close_memory(&id, &n_lost));
	assert_int_equal(id, 2);
	assert_int_equal(trace_begin(3, memfd_create("all", MFD_CLOEXEC), TRACE_ALL_USERS), 0);
	tracer_sync(harness.session);
	assert_true(trace_end(1));
	assert_true(trace_close_memory(&id, &n_lost));
	assert_int_equal(id, 1);
	assert_int_equal(read_chunk(0)->head.n_records, 1);
	assert_false(trace_close_memory(&id, &n_lost));
	assert_true(trace_end(3));
	tracer_sync(harness.session);
	assert_null(harness.session->tracer);
	assert_true(trace_close_memory(&id, &n_lost));
}

/* ---- the memory */

static struct trace_writer *new_writer(void)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));

	assert_non_null(writer);
	tracer_sync(harness.session);
	trace_writer_init(writer, harness.session);
	return writer;
}

static void add_many(struct trace_writer *writer, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++) {
		const struct trace_record record = {.kind = TRACE_FILL, .start_ns = i + 1};

		trace_writer_add(writer, &record, name);
	}
}

/* A client gets its part, all clients together get the memory, and what is lost is counted. */
static void test_bounds(void **state)
{
	const unsigned part = TRACE_CLIENT_CHUNKS * TRACE_RECORDS;
	struct trace_writer *writers[3];
	const struct trace_chunk *chunk;

	(void)state;
	assert_int_equal(begin_trace(TRACE_ALL_USERS), 0);
	for (unsigned i = 0; i < 3; i++)
		writers[i] = new_writer();
	add_many(writers[0], part + 5, "a");
	add_many(writers[1], part, NULL);
	add_many(writers[2], 7, NULL);
	for (unsigned i = 0; i < 3; i++) {
		trace_writer_flush(writers[i]);
		free(writers[i]);
	}
	assert_int_equal(finish_trace(), 5 + 7);
	for (unsigned i = 0; i < TRACE_CHUNKS; i++) {
		chunk = read_chunk(i);
		assert_int_equal(chunk->head.magic, TRACE_MAGIC);
		assert_int_equal(chunk->head.n_records, TRACE_RECORDS);
	}
	chunk = read_chunk(TRACE_CLIENT_CHUNKS - 1);
	assert_int_equal(chunk->head.n_lost, 5);
	assert_int_equal(chunk->head.full_ns, part + 1);
	assert_string_equal(chunk->names + chunk->records[0].name, "a");
}

/* Names have their own bound; a chunk without space for another name is followed by the next. */
static void test_names(void **state)
{
	struct trace_writer *writer;
	const struct trace_chunk *chunk;
	char name[300];

	(void)state;
	assert_int_equal(begin_trace(TRACE_ALL_USERS), 0);
	writer = new_writer();
	for (unsigned i = 0; i < 100; i++) {
		memset(name, 'a' + (int)i % 26, sizeof(name));
		name[0] = (char)('!' + i);
		name[sizeof(name) - 1] = '\0';
		add_many(writer, 2, name);
	}
	trace_writer_flush(writer);
	free(writer);
	assert_int_equal(finish_trace(), 0);
	for (unsigned i = 0, n = 0; n < 200; i++) {
		chunk = read_chunk(i);
		assert_in_range(chunk->head.n_records, 1, 200 - n);
		for (unsigned k = 0; k < chunk->head.n_records; k++, n++) {
			const char *found = chunk->names + chunk->records[k].name;

			assert_int_equal(strlen(found), TRACE_NAME_MAX - 1);
			assert_int_equal((uint8_t)found[0], '!' + n / 2);
		}
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_records),
		TEST(test_beside_a_blocked_stream),
		TEST(test_unfinished),
		TEST(test_driver_refuses),
		TEST(test_end_of_a_session),
		TEST(test_who_is_traced),
		TEST(test_traces_of_users),
		TEST(test_bounds),
		TEST(test_names),
	};

	fake_cuda_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
