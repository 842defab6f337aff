/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which clients are welcomed when, over a loop whose time the test sets. A client's
 * connection stands for the client.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "async_close.h"
#include "bounds.h"
#include "server/util/log.h"
#include "server/session/session.h"
#include "server/link/daemon_link.h"
#include "server/client_conn.h"
#include "server/newcomers.h"
#include "server/server.h"
#include "server/suspension.h"

#define WELCOMED_MAX 8

static struct server server;
static struct session sessions[2];
static struct client_conn leavers[2];
static int welcomed[WELCOMED_MAX];
static unsigned n_welcomed, n_lines, n_closed, n_told, n_refused, n_ticks;
static struct client_conn comers[WELCOMED_MAX];
static uint64_t suspended;        /* the client that was suspended as it was welcomed */
static struct frame_suspend last; /* sent to the daemon */

void client_conn_new(struct server *of, const struct frame_client *client, int connection)
{
	assert_true(n_welcomed < WELCOMED_MAX);
	comers[n_welcomed] = (struct client_conn){.id = client->id, .next = of->conns};
	comers[n_welcomed].session = &sessions[1];
	of->conns = &comers[n_welcomed];
	welcomed[n_welcomed++] = connection;
}

void suspension_take(struct client_conn *conn, const struct frame_suspend *order)
{
	assert_int_equal(order->client, conn->id);
	suspended = conn->id;
}

void server_start_tick(_unused_ struct server *of)
{
	n_ticks++;
}

void daemon_link_send(const void *frame)
{
	memcpy(&last, frame, sizeof(last));
}

void client_conn_notify_of(
	_unused_ const struct frame_client *client, _unused_ enum frame_type type)
{
	n_told++;
}

void client_conn_refuse(_unused_ const struct frame_client *client, _unused_ int connection,
	uint32_t result, _unused_ const char *text)
{
	assert_int_equal(result, CUDA_ERROR_MPS_CLIENT_TERMINATED);
	n_refused++;
}

bool client_conn_waits_for_others(const struct client_conn *conn)
{
	return atomic_load(&conn->session->waits_for_others);
}

void log_line(_unused_ const char *format, ...)
{
	n_lines++;
}

void async_close(_unused_ int fd)
{
	n_closed++;
}

static int set_up(_unused_ void **state)
{
	server = (struct server){.loop = {.time = 1000}};
	for (unsigned i = 0; i < 2; i++) {
		sessions[i] = (struct session){0};
		leavers[i] = (struct client_conn){.session = &sessions[i]};
	}
	leavers[0].next = &leavers[1];
	server.conns = leavers;
	n_welcomed = n_lines = n_closed = n_told = n_refused = n_ticks = 0;
	suspended = 0;
	return 0;
}

static int tear_down(_unused_ void **state)
{
	newcomers_drop(&server);
	return 0;
}

static void leave(unsigned i)
{
	leavers[i].is_ending = true;
	leavers[i].ending_ms = server.loop.time;
	atomic_store(&sessions[i].has_work, true);
}

static void come(int connection)
{
	const struct frame_client client = {
		.pid = (uint32_t)connection, .id = (uint64_t)connection};

	newcomers_take(&server, &client, connection);
}

static void pass(uint64_t ms)
{
	server.loop.time += ms;
	newcomers_look(&server);
}

static void test_welcomed_at_once(_unused_ void **state)
{
	come(7);
	assert_int_equal(n_welcomed, 1);
}

/* They are welcomed in the order of arrival. */
static void test_wait_for_work(_unused_ void **state)
{
	leave(0);
	come(7);
	come(8);
	pass(NEWCOMER_LOG_MS - 1);
	assert_int_equal(n_lines, 0);
	pass(1);
	assert_int_equal(n_lines, 2);
	pass(1);
	assert_int_equal(n_lines, 2);
	assert_int_equal(n_welcomed, 0);
	atomic_store(&sessions[0].has_work, false);
	pass(1);
	assert_int_equal(n_welcomed, 2);
	assert_int_equal(welcomed[0], 7);
	assert_int_equal(welcomed[1], 8);
}

static void test_work_that_waits_for_others(_unused_ void **state)
{
	leave(0);
	atomic_store(&sessions[0].waits_for_others, true);
	come(7);
	assert_int_equal(n_welcomed, 1);
}

static void test_not_for_ever(_unused_ void **state)
{
	leave(0);
	come(7);
	pass(NEWCOMER_WAIT_MS - 1);
	assert_int_equal(n_welcomed, 0);
	pass(1);
	assert_int_equal(n_welcomed, 1);
}

/* A client does not wait for work of clients that leave after it has come. */
static void test_not_for_those_that_leave_later(_unused_ void **state)
{
	leave(0);
	come(7);
	server.loop.time += 10;
	leave(1);
	come(8);
	atomic_store(&sessions[0].has_work, false);
	pass(1);
	assert_int_equal(n_welcomed, 1);
	assert_int_equal(welcomed[0], 7);
	atomic_store(&sessions[1].has_work, false);
	pass(1);
	assert_int_equal(n_welcomed, 2);
}

static void test_dropped(_unused_ void **state)
{
	leave(0);
	come(7);
	come(8);
	newcomers_notify(&server);
	assert_int_equal(n_told, 2);
	newcomers_drop(&server);
	assert_int_equal(n_told, 4);
	assert_int_equal(n_closed, 2);
	assert_int_equal(n_welcomed, 0);
}

/* The operator terminates a waiting client; the others continue to wait. */
static void test_terminated(_unused_ void **state)
{
	leave(0);
	come(7);
	come(8);
	come(9);
	assert_false(newcomers_terminate(&server, 6));
	assert_true(newcomers_terminate(&server, 8));
	assert_false(newcomers_terminate(&server, 8));
	assert_int_equal(n_refused, 1);
	assert_int_equal(n_closed, 1);
	atomic_store(&sessions[0].has_work, false);
	pass(1);
	assert_int_equal(n_welcomed, 2);
	assert_int_equal(welcomed[1], 9);
}

static void suspend(uint64_t client, enum suspension state, uint32_t number)
{
	const struct frame_suspend order = {.client = client, .state = state, .number = number};

	last = (struct frame_suspend){0};
	newcomers_suspend(&server, &order);
}

/* A waiting client that is suspended begins so; nothing of it runs meanwhile. */
static void test_suspended(_unused_ void **state)
{
	leave(0);
	come(7);
	come(8);
	suspend(6, SUSPENSION_BEGUN, 1);
	assert_int_equal(last.client, 0);
	suspend(7, SUSPENSION_BEGUN, 1);
	suspend(7, SUSPENSION_NONE, 2);
	assert_int_equal(last.state, SUSPENSION_NONE);
	suspend(8, SUSPENSION_BEGUN, 5);
	assert_int_equal(last.state, SUSPENSION_AT_REST);
	assert_int_equal(last.number, 5);
	last = (struct frame_suspend){0};
	newcomers_notify(&server);
	assert_int_equal(last.client, 8);
	atomic_store(&sessions[0].has_work, false);
	pass(1);
	assert_int_equal(n_welcomed, 2);
	assert_int_equal(suspended, 8);
	assert_int_equal(n_ticks, 1);
}

/* A process that stays after its work has ended delays no other. */
static void test_inactive(_unused_ void **state)
{
	leave(0);
	leavers[0].is_inactive = true;
	come(7);
	assert_int_equal(n_welcomed, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_welcomed_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_wait_for_work, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_work_that_waits_for_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_not_for_ever, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_not_for_those_that_leave_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_dropped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_terminated, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_suspended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_inactive, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
