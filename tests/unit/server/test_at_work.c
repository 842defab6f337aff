/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which sessions have work on a GPU (server/session/at_work.h), over a driver whose streams have
 * work for as long as the test says.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "open_session.h"
#include "server/session/at_work.h"
#include "server/session/fault.h"
#include "server/session/session_part.h"
#include "server/stream/stream.h"

#define STREAM DEVICES_MAX

static struct cuda_api real;
static CUstream working;

static CUresult query(CUstream stream)
{
	return stream == working ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static int open_working(void **state)
{
	if (open_session(state) < 0)
		return -1;
	real = cuda;
	cuda.cuStreamQuery = query;
	working = NULL;
	return 0;
}

static int close_working(void **state)
{
	cuda = real;
	working = NULL;
	return close_session(state);
}

/* Work on a new stream of that ID, whose driver stream is returned. */
static CUstream begin(void)
{
	CUstream stream;

	send_stream_create(STREAM, 0, CU_STREAM_NON_BLOCKING, 0);
	harness_serve();
	assert_int_equal(stream_begin(harness.session, harness.session->streams[STREAM], &stream),
		CUDA_SUCCESS);
	return stream;
}

static void destroy(void)
{
	send_stream_destroy(STREAM);
	harness_serve();
}

static void test_stream(void **state)
{
	(void)state;
	assert_false(session_is_at_work(harness.session));
	working = begin();
	assert_true(session_is_at_work(harness.session));
	streams_poll(harness.session);
	assert_true(session_is_at_work(harness.session));
	working = NULL;
	streams_poll(harness.session);
	assert_false(session_is_at_work(harness.session));
}

/* A destroyed stream comes to rest while a later one of its ID has work. */
static void test_later_stream(void **state)
{
	(void)state;
	working = begin();
	destroy();
	working = begin();
	streams_poll(harness.session);
	assert_true(session_is_at_work(harness.session));
	working = NULL;
	streams_poll(harness.session);
	assert_false(session_is_at_work(harness.session));
}

/* Whether the harness's session had work at a fault that `first' has seen first. */
static bool had_work(struct session *first)
{
	each_part(session_parts, fault, first);
	return atomic_load(&harness.session->had_work);
}

/* Before a worker sleeps, it finds out whether work that no seqno follows has ended. */
static void test_look(void **state)
{
	static struct session other;

	(void)state;
	working = begin();
	streams_look(harness.session);
	assert_true(session_is_at_work(harness.session));
	working = NULL;
	streams_look(harness.session);
	assert_false(session_is_at_work(harness.session));
	assert_non_null(harness.session->busy);
	assert_false(had_work(&other));
}

/* The mark of a later stream says nothing of the destroyed one. */
static void test_look_at_later_stream(void **state)
{
	(void)state;
	working = begin();
	destroy();
	begin();
	streams_look(harness.session);
	assert_true(session_is_at_work(harness.session));
	working = NULL;
	streams_poll(harness.session);
	assert_false(session_is_at_work(harness.session));
}

/* What a session does after a fault does not change whether it had work. */
static void test_at_a_fault(void **state)
{
	static struct session other;

	(void)state;
	assert_false(had_work(&other));
	working = begin();
	assert_false(atomic_load(&harness.session->had_work));
	assert_true(had_work(&other));
}

/* If no session had work, the one that has seen the fault first had it. */
static void test_seen_first(void **state)
{
	(void)state;
	assert_true(had_work(harness.session));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stream, open_working, close_working),
		cmocka_unit_test_setup_teardown(test_later_stream, open_working, close_working),
		cmocka_unit_test_setup_teardown(test_look, open_working, close_working),
		cmocka_unit_test_setup_teardown(
			test_look_at_later_stream, open_working, close_working),
		cmocka_unit_test_setup_teardown(test_at_a_fault, open_working, close_working),
		cmocka_unit_test_setup_teardown(test_seen_first, open_working, close_working),
	};

	return cmocka_run_group_tests_name("server at work", tests, NULL, NULL);
}
