/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The loop. One thread; other threads reach it only through the `news' handle.
 *
 * Invariant: every wait has a deadline, which the tick checks.
 */

#include "server.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "async_close.h"
#include "client_conn.h"
#include "departure.h"
#include "newcomers.h"
#include "rescue.h"
#include "sharer.h"
#include "suspension.h"
#include "worker.h"
#include "server/util/log.h"
#include "server/util/number.h"
#include "server/util/thread.h"
#include "server/session/at_work.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/driver/driver_facts.h"
#include "server/device/device.h"
#include "server/schedule/deferred.h"
#include "server/link/device_frame.h"
#include "server/link/group_link.h"
#include "server/link/trace_control.h"

#define TICK_MS 100
#define GRACE_MS_MAX 3600000

/* Ends without cleanup, because no driver call may ever return now. */
_Noreturn static void leave(int status)
{
	daemon_link_drain();
	log_line("Exiting");
	_exit(status);
}

void server_notify_state(struct server *server)
{
	struct frame_server_state frame = {0};

	frame_init(&frame, FRAME_SERVER_STATE, 0);
	frame.state = SERVER_ACTIVE;
	frame.result = server->init_result;
	if (!server->is_ready)
		frame.state = SERVER_INITIALIZING;
	else if (server->is_faulted)
		frame.state = SERVER_FAULT;
	else if (server->is_stopping)
		frame.state = SERVER_STOPPING;
	if (server->is_faulted)
		frame.result = fault_get();
	if (server->is_faulted)
		frame.client = fault_report_client(&server->fault_report);
	for (const struct client_conn *conn = server->conns; conn; conn = conn->next)
		frame.n_survivors += rescue_takes(conn);
	if (frame.result)
		snprintf(frame.text, sizeof(frame.text), "%s: %s",
			server->is_faulted ? "GPU fault" : "cuInit",
			result_name((CUresult)frame.result));
	daemon_link_send(&frame);
}

void server_notify_devices(struct server *server)
{
	for (uint32_t i = 0; server->is_ready && i < devices_count(); i++) {
		struct frame_device frame = device_frame(device_get(i));

		daemon_link_send(&frame);
	}
}

static void log_driver_version(void)
{
	const struct driver_facts *facts = driver_facts();
	char text[64] = "";
	FILE *file = fopen("/sys/module/nvidia/version", "re");

	if (file && fgets(text, sizeof(text), file))
		text[strcspn(text, "\n")] = 0;
	if (file)
		fclose(file);
	if (*text)
		log_line("Display Driver version: %s", text);
	log_line("CUDA driver: %s, CUDA %d.%d", driver_path(), driver_version() / 1000,
		driver_version() % 1000 / 10);
	if (driver_version() != facts->version)
		log_line("This server was measured with driver %d (CUDA %d.%d). With another "
			 "driver, calls may wait longer while a client blocks a stream",
			facts->branch, facts->version / 1000, facts->version % 1000 / 10);
}

/* cuInit() has returned. */
static void become_ready(struct server *server)
{
	pthread_join(server->starter, NULL);
	server->is_ready = true;
	if (server->init_result)
		log_line("cuInit failed: %s (%u). Clients get this error",
			result_name((CUresult)server->init_result), server->init_result);
	log_line(VERSION_LINE, CUDA_VERSION);
	log_driver_version();
	server_notify_devices(server);
	server_notify_state(server);
	daemon_link_read();
}

/* One line for each GPU that it uses. */
static void log_end_by_fault(struct session *session)
{
	uint64_t devices = atomic_load(&session->granted);

	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (devices >> i & 1)
			log_line("Client " SESSION_NAME " on device %u to be torn down",
				SESSION_NAME_ARGS(session), i);
}

static void log_devices(const struct server *server)
{
	uint64_t devices = 0;

	for (const struct client_conn *conn = server->conns; conn; conn = conn->next)
		devices |= atomic_load(&conn->session->granted);
	log_line("The following devices will be reset:");
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (devices >> i & 1)
			log_line("%u", i);
}

static bool is_rescued(const struct server *server, pid_t pid)
{
	const struct client_conn *conn = server->conns;

	while (conn && !(conn->pid == pid && rescue_takes(conn)))
		conn = conn->next;
	return conn != NULL;
}

/* Logs the clients and the devices that the fault ends. */
static void log_fault(const struct server *server)
{
	const struct client_conn *conn;
	pid_t pid = fault_report_pid(&server->fault_report);

	for (conn = server->conns; conn; conn = conn->next)
		if (!rescue_takes(conn))
			log_end_by_fault(conn->session);
	if (pid > 0 && !is_rescued(server, pid))
		log_line("All clients belonging to error triggering process %d will be torn down",
			(int)pid);
	log_devices(server);
	log_line("The following client process have a sticky error set:");
	for (conn = server->conns; conn; conn = conn->next)
		if (!rescue_takes(conn))
			log_line("%d", (int)conn->pid);
}

/* Those that the fault costs something. */
static void notify_of_fault(struct server *server)
{
	const pid_t pid = fault_report_pid(&server->fault_report);

	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (!rescue_takes(conn))
			session_notify_fault(conn->session, fault_get(), pid);
}

/* They may be more than before, as long as the others have not moved. */
static void end_lost(struct server *server)
{
	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (server->is_faulted && !rescue_takes(conn))
			client_conn_end(conn);
}

/*
 * No kernel will run in this process again: notifies the clients that the fault costs something;
 * the daemon replaces the server.
 */
static void handle_fault(struct server *server)
{
	unsigned n;

	departure_cancel(server, "a GPU fault has ended their work");
	server->is_faulted = true;
	server->fault_ms = uv_now(&server->loop);
	newcomers_drop(server);
	fault_report_begin(&server->fault_report, server->conns);
	n = rescue_begin(server);
	notify_of_fault(server);
	log_fault(server);
	server_notify_state(server);
	fault_report_send(&server->fault_report);
	rescue_report(server);
	end_lost(server);
	if (n > 0)
		departure_rescue(server);
	server_start_tick(server);
}

static void server_on_news(uv_async_t *async)
{
	struct server *server = async->data;
	struct client_conn *next;

	if (!server->is_ready && atomic_load(&server->is_started))
		become_ready(server);
	for (struct client_conn *conn = server->conns; conn; conn = next) {
		next = conn->next;
		client_conn_update(conn);
	}
	sampler_start(&server->sampler);
	trace_control_look(server->conns);
	group_link_look();
	newcomers_look(server);
	departure_look(server);
	end_lost(server);
	if (!server->is_faulted && fault_get() != CUDA_SUCCESS)
		handle_fault(server);
}

/*
 * A kernel of a client that has left still runs, or a driver call for the client does not return.
 * Only the end of this process ends it.
 */
static void leave_overdue(struct server *server, const struct client_conn *conn)
{
	const bool is_at_work = session_is_at_work(conn->session);
	struct frame_server_state frame = {0};

	log_line("Client " SESSION_NAME " %s, and %s for %d ms (MPS_GRACE_MS): the server ends and "
		 "is replaced",
		SESSION_NAME_ARGS(conn->session),
		conn->is_terminated ? "was terminated" : "has left",
		is_at_work ? "its work has occupied the GPU"
			   : "a driver call for it has not returned",
		server->grace_ms);
	frame_init(&frame, FRAME_SERVER_STATE, 0);
	frame.state = SERVER_FAULT;
	frame.result = CUDA_ERROR_LAUNCH_TIMEOUT;
	/* Do not count an end that the operator has requested against the program. */
	frame.client = is_at_work && !conn->is_terminated ? conn->id : 0;
	snprintf(frame.text, sizeof(frame.text),
		is_at_work ? "work of the %s client %d does not end"
			   : "a driver call for the %s client %d does not return",
		conn->is_terminated ? "terminated" : "dead", (int)conn->pid);
	daemon_link_send(&frame);
	if (is_at_work)
		fault_report_overdue(&server->fault_report, conn);
	client_conns_answer_terminate(server->conns);
	leave(1);
}

/*
 * The time in which the session waits for other clients does not count, nor that in which it gives
 * back what it holds: other clients may slow that down.
 */
static void check_overdue(struct server *server, struct client_conn *conn)
{
	if (client_conn_gives_back(conn) || client_conn_waits_for_others(conn))
		conn->grace_from_ms = uv_now(&server->loop);
	if (uv_now(&server->loop) - conn->grace_from_ms >= (uint64_t)server->grace_ms)
		leave_overdue(server, conn);
}

static void on_tick(uv_timer_t *timer)
{
	struct server *server = timer->data;
	const uint64_t faulted_ms = uv_now(&server->loop) - server->fault_ms;
	bool is_leaving,
		is_needed = server->is_faulted || (server->is_stopping && !server->is_ready);

	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		if (!conn->is_ending || conn->is_inactive)
			continue;
		is_needed = true;
		session_end(conn->session);
		check_overdue(server, conn);
	}
	is_needed |= trace_control_look(server->conns);
	is_needed |= suspensions_look(server->conns);
	is_leaving = departure_look(server);
	end_lost(server);
	is_needed |= is_leaving;
	newcomers_look(server);
	if (server->is_faulted && !is_leaving &&
		((server->n_conns == 0 &&
			 !fault_report_is_open(&server->fault_report, faulted_ms)) ||
			faulted_ms >= FAULT_LINGER_MS)) {
		client_conns_answer_terminate(server->conns);
		leave(1);
	}
	if (!is_needed)
		uv_timer_stop(timer);
}

void server_start_tick(struct server *server)
{
	if (!uv_is_active((uv_handle_t *)&server->tick))
		uv_timer_start(&server->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_look(uv_timer_t *timer)
{
	struct server *server = timer->data;

	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		client_conn_check_watchdog(conn);
	if (!server->conns)
		uv_timer_stop(timer);
}

void server_start_looks(struct server *server)
{
	if (!uv_is_active((uv_handle_t *)&server->looks))
		uv_timer_start(&server->looks, on_look, WATCHDOG_LOOK_MS, WATCHDOG_LOOK_MS);
}

/* Ends a stopping server after its last client has left. After a fault, the tick ends it. */
static void close_all(struct server *server)
{
	if (server->is_closing || server->is_faulted || !server->is_stopping ||
		server->n_conns > 0 || server->is_opening)
		return;
	server->is_closing = true;
	daemon_link_close();
	uv_close((uv_handle_t *)&server->news, NULL);
	uv_close((uv_handle_t *)&server->tick, NULL);
	uv_close((uv_handle_t *)&server->looks, NULL);
	uv_close((uv_handle_t *)&server->sampler.timer, NULL);
	uv_close((uv_handle_t *)&server->sigterm, NULL);
	uv_close((uv_handle_t *)&server->sigint, NULL);
}

void server_conn_gone(struct server *server)
{
	server->alone_ms = uv_now(&server->loop);
	/* A driver that was not ready may be ready now, but only for a new process. */
	if (server->init_result && server->n_conns == 0)
		server_stop(server, false);
	close_all(server);
}

void server_stop(struct server *server, bool force)
{
	/* cuInit() cannot be cancelled, and there are no clients yet. */
	if (!server->is_ready)
		leave(0);
	departure_cancel(server, "the server is stopping");
	if (!server->is_stopping) {
		server->is_stopping = true;
		server_notify_state(server);
		log_line("Waiting for current clients to finish");
	}
	newcomers_drop(server);
	daemon_link_stop(force);
	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (force || conn->is_inactive)
			client_conn_end(conn);
	close_all(server);
}

static void on_signal(uv_signal_t *signal, int number)
{
	log_line("Server shuts down on signal %d", number);
	server_stop(signal->data, true);
}

static void *run_starter(void *arg)
{
	struct server *server = arg;

	server->init_result = (uint32_t)devices_init();
	atomic_store(&server->is_started, true);
	uv_async_send(&server->news);
	return NULL;
}

static void loop_init(struct server *server)
{
	uv_loop_init(&server->loop);
	uv_async_init(&server->loop, &server->news, server_on_news);
	server->news.data = server;
	uv_timer_init(&server->loop, &server->tick);
	server->tick.data = server;
	uv_timer_init(&server->loop, &server->looks);
	server->looks.data = server;
	sampler_init(&server->sampler, &server->loop, &server->conns);
	uv_signal_init(&server->loop, &server->sigterm);
	uv_signal_init(&server->loop, &server->sigint);
	server->sigterm.data = server->sigint.data = server;
	uv_signal_start(&server->sigterm, on_signal, SIGTERM);
	uv_signal_start(&server->sigint, on_signal, SIGINT);
}

int server_init(
	struct server *server, uid_t uid, bool is_multiuser, const struct daemon_link_ops *orders)
{
	int r;

	*server = (struct server){.uid = uid, .is_multiuser = is_multiuser};
	server->grace_ms = (int)number_setting(
		"MPS_GRACE_MS", "milliseconds", 0, GRACE_MS_MAX, GRACE_MS_DEFAULT);
	r = daemon_link_init();
	if (r < 0)
		return r;
	log_line("Initializing server process");
	r = driver_open();
	if (r < 0)
		return r;
	loop_init(server);
	daemon_link_open(&server->loop, orders, server);
	r = thread_start(&server->starter, "mps-starter", run_starter, server);
	if (r == 0)
		r = deferred_start();
	if (r == 0)
		r = async_close_start();
	if (r < 0)
		log_line("Cannot start a thread: %s", strerrordesc_np(-r));
	return r;
}

void server_run(struct server *server)
{
	uv_run(&server->loop, UV_RUN_DEFAULT);
}

void server_fini(struct server *server)
{
	int r;

	deferred_stop();
	devices_fini();
	sharers_free(server);
	daemon_link_fini();
	r = uv_loop_close(&server->loop);
	assert(r == 0);
	(void)r;
}
