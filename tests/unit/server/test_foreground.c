/* SPDX-License-Identifier: Apache-2.0 */

/* Pieces of foreground work and their times, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "clock.h"
#include "open_session.h"
#include "server/device/device.h"
#include "server/schedule/classes.h"
#include "server/schedule/elastic.h"
#include "server/schedule/foreground.h"
#include "server/share/session_device.h"

#define MS 1000000ull

/* What the controller was told: the functions of elastic.c are replaced. */
static struct noted {
	unsigned n;
	uint64_t work, ns;
	unsigned groups;
} noted;

void __wrap_elastic_note(const struct device *device, uint32_t session, uint64_t work, uint64_t ns,
	unsigned groups, uint64_t now);
void __wrap_elastic_note(const struct device *device, uint32_t session, uint64_t work, uint64_t ns,
	unsigned groups, uint64_t now)
{
	(void)now;
	assert_ptr_equal(device, device_get(0));
	assert_int_equal(session, harness.session->id);
	noted = (struct noted){.n = noted.n + 1, .work = work, .ns = ns, .groups = groups};
}

struct background_work __wrap_classes_background(uint32_t ordinal);
static struct background_work beside;
struct background_work __wrap_classes_background(uint32_t ordinal)
{
	assert_int_equal(ordinal, 0);
	return beside;
}

static struct stream *stream_of(unsigned id)
{
	static struct stream streams[2];

	streams[id] = (struct stream){.id = id, .device = device_get(0)};
	return &streams[id];
}

static void gpu_writes(unsigned stream, uint64_t seqno)
{
	shm_store64(&harness.session->page->timeline[stream], seqno);
}

/* Work of a stream that takes that long, as the worker sees it when it looks all the time. */
static void piece(unsigned stream, uint64_t seqno, uint64_t work, uint64_t ns)
{
	struct foreground *own = harness.session->foreground;
	uint64_t begin_ns;

	foreground_note(harness.session, stream_of(stream), work);
	foreground_close(harness.session, stream, seqno);
	begin_ns = own->pieces[(own->n_closed - 1) % FOREGROUND_PIECES_MAX].begin_ns;
	foreground_look(harness.session, begin_ns + ns - ns / 64);
	gpu_writes(stream, seqno);
	foreground_look(harness.session, begin_ns + ns);
}

static int open_one(void **state)
{
	noted = (struct noted){0};
	beside = (struct background_work){0};
	if (open_session(state) != 0)
		return -1;
	gpu_writes(0, 0);
	return 0;
}

static void test_time(void **state)
{
	(void)state;
	piece(0, 1, 7, 2 * MS);
	assert_int_equal(noted.n, 1);
	assert_int_equal(noted.ns, 2 * MS);
	assert_int_equal(noted.groups, 0);
	beside.groups = 12;
	piece(0, 2, 7, 3 * MS);
	assert_int_equal(noted.n, 2);
	assert_int_equal(noted.groups, 12);
}

/* Equal work has equal numbers, and the order counts. */
static void test_work(void **state)
{
	const uint32_t grid[3] = {4, 1, 1}, other_grid[3] = {5, 1, 1};
	uint64_t work;

	(void)state;
	foreground_note(harness.session, stream_of(0), 5);
	piece(0, 1, 6, MS);
	work = noted.work;
	foreground_note(harness.session, stream_of(0), 5);
	piece(0, 2, 6, MS);
	assert_int_equal(noted.work, work);
	foreground_note(harness.session, stream_of(0), 6);
	piece(0, 3, 5, MS);
	assert_int_not_equal(noted.work, work);
	assert_int_not_equal(foreground_hash(0, 1, grid), foreground_hash(0, 1, other_grid));
	assert_int_not_equal(foreground_hash(0, 1, grid), foreground_hash(0, 2, grid));
}

/* What other clients had on the GPU changed meanwhile. */
static void test_change(void **state)
{
	(void)state;
	foreground_note(harness.session, stream_of(0), 5);
	foreground_close(harness.session, 0, 1);
	beside.groups = 3;
	gpu_writes(0, 1);
	foreground_look(harness.session, now_ns());
	assert_int_equal(noted.n, 0);
	beside.groups = 0;
	foreground_note(harness.session, stream_of(0), 5);
	foreground_close(harness.session, 0, 2);
	/* A launch that came and went. */
	beside.n_noted++;
	gpu_writes(0, 2);
	foreground_look(harness.session, now_ns());
	assert_int_equal(noted.n, 0);
}

/* An end that was seen late does not count. */
static void test_late(void **state)
{
	uint64_t now;

	(void)state;
	foreground_note(harness.session, stream_of(0), 5);
	foreground_close(harness.session, 0, 1);
	now = now_ns();
	foreground_look(harness.session, now + MS);
	gpu_writes(0, 1);
	foreground_look(harness.session, now + 2 * MS);
	assert_int_equal(noted.n, 0);
}

/* Work of other streams is not mixed in, and a piece without work does not exist. */
static void test_streams(void **state)
{
	uint64_t work;

	(void)state;
	foreground_close(harness.session, 0, 1);
	assert_false(foreground_is_waiting(harness.session->foreground));
	piece(0, 1, 5, MS);
	work = noted.work;
	foreground_note(harness.session, stream_of(0), 5);
	foreground_note(harness.session, stream_of(1), 9);
	foreground_close(harness.session, 1, 1);
	assert_false(foreground_is_waiting(harness.session->foreground));
	foreground_close(harness.session, 0, 2);
	assert_true(foreground_is_waiting(harness.session->foreground));
	/* The piece of stream 0 waits. */
	foreground_note(harness.session, stream_of(1), 9);
	foreground_close(harness.session, 1, 2);
	gpu_writes(0, 2);
	foreground_look(harness.session, now_ns());
	assert_false(foreground_is_waiting(harness.session->foreground));
	assert_int_equal(noted.work, work);
}

/* More pieces than are watched: the last ones are dropped, and nothing is confused. */
static void test_many(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= UINT64_C(3) * FOREGROUND_PIECES_MAX; i++) {
		foreground_note(harness.session, stream_of(0), 5);
		foreground_close(harness.session, 0, i);
	}
	gpu_writes(0, UINT64_C(3) * FOREGROUND_PIECES_MAX);
	foreground_look(harness.session, now_ns());
	assert_false(foreground_is_waiting(harness.session->foreground));
	piece(0, UINT64_C(3) * FOREGROUND_PIECES_MAX + 1, 5, MS);
	assert_int_equal(noted.ns, MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_time, open_one, close_session),
		cmocka_unit_test_setup_teardown(test_work, open_one, close_session),
		cmocka_unit_test_setup_teardown(test_change, open_one, close_session),
		cmocka_unit_test_setup_teardown(test_late, open_one, close_session),
		cmocka_unit_test_setup_teardown(test_streams, open_one, close_session),
		cmocka_unit_test_setup_teardown(test_many, open_one, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
