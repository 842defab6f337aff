/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Server processes. Loop thread.
 *
 * Invariant: the timer runs while a server starts, and while it ends without
 * clients to wait for. In between, each connection that waits for the server
 * has its own deadline.
 */

#include "server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "clients.h"
#include "group_shares.h"
#include "place.h"
#include "server_watch.h"
#include "spawn.h"
#include "daemon/text/process.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/record.h"
#include "daemon/state/tenant.h"
#include "daemon/state/tenant_log.h"
#include "daemon/conn/conn.h"

/* For a server that has to end, on top of the grace for its clients' kernels. */
#define END_MS 5000

/* Between SIGTERM, SIGKILL and giving up. */
#define KILL_MS 2000

/* Reads of its output before other events are handled. */
#define OUTPUT_BATCH 16

static void on_server_overdue(uv_timer_t *timer);

void server_set_deadline(struct server *server, uint64_t timeout_ms, const char *overdue)
{
	if (server->n_kills > 0)
		return;
	server->overdue = overdue;
	server->deadline_ms = uv_now(&server->daemon->loop) + timeout_ms;
	uv_timer_start(&server->timer, on_server_overdue, timeout_ms, 0);
}

void server_clear_deadline(struct server *server)
{
	if (server->n_kills > 0)
		return;
	server->overdue = NULL;
	uv_timer_stop(&server->timer);
}

/* Records the number of signals sent, and gives the last one a little time. */
static void await_signal_effect(struct server *server, unsigned n_kills)
{
	server->n_kills = n_kills;
	uv_timer_start(&server->timer, on_server_overdue, KILL_MS, 0);
}

/* What lines about a server are about, for the log. */
#define ABOUT(the)                                                                                 \
	(&(const struct log_subject){                                                              \
		.server = (the)->pid, .has_uid = true, .uid = (the)->tenant->uid})

/* Logs a line about the server to control.log. */
_printf_(2, 3) static void server_log(struct server *server, const char *format, ...)
{
	char text[LINE_MAX_SIZE];

	format_arguments(text, format);
	log_control_about(&server->daemon->logs, ABOUT(server), "%s", text);
}

/* ---- its end */

static void on_server_closed(uv_handle_t *handle)
{
	struct server *server = handle->data;

	if (--server->n_handles > 0)
		return;
	closep(&server->pidfd);
	closep(&server->output);
	devices_fini(&server->devices);
	free(server);
}

static void server_close_output(struct server *server)
{
	if (server->output < 0 || uv_is_closing((uv_handle_t *)&server->output_poll))
		return;
	uv_close((uv_handle_t *)&server->output_poll, on_server_closed);
}

/* The server has ended, or counts as ended: its slot may start another one. */
static void server_end(struct server *server, bool is_clean)
{
	struct slot *slot = server->slot;
	struct conn *conn = server->conn;

	if (conn)
		conn_close(conn);
	server_watch_lost(server);
	server_watch_end(server);
	clients_clear(server);
	if (!is_clean)
		usage_count(server->daemon, server->tenant->uid, USAGE_SERVER_FAILURE);
	place_leave(server);
	group_shares_end(server);
	server->slot = NULL;
	server->tenant = NULL;
	if (slot->server == server) {
		slot->server = NULL;
		slot->has_failed = !is_clean;
		slot->error = server->error;
	}
	daemon_want(server->daemon, WANT_RECORD);
	/* Another server may be possible now, too. */
	daemon_want(server->daemon, WANT_PROGRESS);
	uv_close((uv_handle_t *)&server->exit_poll, on_server_closed);
	uv_close((uv_handle_t *)&server->timer, on_server_closed);
	uv_close((uv_handle_t *)&server->handover_timer, on_server_closed);
	server_close_output(server);
}

void server_log_line(struct server *server, const char *line)
{
	const char *name = server->slot ? server->slot->name : "";
	char text[LOG_LINE_MAX];

	snprintf(server->last_line, sizeof(server->last_line), "%s", line);
	snprintf(text, sizeof(text), "%s%s%s", name, *name ? ": " : "", line);
	tenant_log_server(server->tenant, server->was_active, ABOUT(server), text);
}

static void on_server_line(void *arg, const char *line)
{
	server_log_line(arg, line);
}

bool server_read_output(struct server *server)
{
	char bytes[4096];

	for (int i = 0; i < OUTPUT_BATCH; i++) {
		ssize_t n = read(server->output, bytes, sizeof(bytes));

		if (n > 0)
			line_buffer_feed(
				&server->line_buffer, bytes, (size_t)n, on_server_line, server);
		else
			return n < 0 && (errno == EAGAIN || errno == EINTR);
	}
	return true;
}

static void on_server_output(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	struct server *server = poll->data;

	if (server_read_output(server))
		return;
	line_buffer_end(&server->line_buffer, on_server_line, server);
	uv_poll_stop(poll);
}

/* Describes its end for the log. */
static void describe_server_end(
	const struct server *server, bool is_known, int status, struct error_message *error)
{
	if (!is_known)
		error_message_set(error, 0,
			"Server %d has ended (its exit status is unknown, as it was adopted)",
			server->pid);
	else if (WIFEXITED(status))
		error_message_set(error, 0, "Server %d exited with status %d", server->pid,
			WEXITSTATUS(status));
	else
		error_message_set(error, 0, "Server %d was ended by signal %d (%s)", server->pid,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
}

static void on_server_exit(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	struct server *server = poll->data;
	struct error_message end;
	int exit_status = 0;
	bool is_known, is_clean;

	/* Its clients may be with its successor, which says so or ends. */
	server->is_exit_held = server->successor && server->restart == RESTART_MOVES;
	if (server->is_exit_held) {
		uv_poll_stop(poll);
		return;
	}
	is_known = waitpid(server->pid, &exit_status, WNOHANG) == server->pid;
	if (server->output >= 0) {
		server_read_output(server);
		line_buffer_end(&server->line_buffer, on_server_line, server);
	}
	/* Its last frames may still be in the socket. */
	if (server->conn)
		conn_read(server->conn);
	describe_server_end(server, is_known, exit_status, &end);
	server_log(server, "%s", end.text);
	if (!server->error.text[0])
		error_message_set(&server->error, 0, "%.64s%s%s", end.text,
			server->last_line[0] ? ", its last output: " : "", server->last_line);
	is_clean = server->is_asked || server->had_fault ||
		   (server->was_active && is_known && exit_status == 0);
	/* Another server would end in the same way at once, so this end is not a crash. */
	if (is_known && !server->was_active && WIFEXITED(exit_status) &&
		(WEXITSTATUS(exit_status) == EX_NOUSER ||
			WEXITSTATUS(exit_status) == EX_UNAVAILABLE)) {
		server->slot->is_hopeless = true;
		is_clean = true;
	}
	server_end(server, is_clean);
}

void server_watch_exit(struct server *server)
{
	uv_poll_start(&server->exit_poll, UV_READABLE, on_server_exit);
}

/*
 * An adopted process, which is not a child, may belong to another user since:
 * then it gets no signal, and is no longer a server of this daemon.
 */
static bool signal_server(struct server *server, int number)
{
	int r = server->is_child ? 0
				 : process_check(server->pidfd, server->pid, server->tenant->uid);

	if (r == -EPERM) {
		server_log(server, "Process %d no longer belongs to user %u and gets no signal",
			server->pid, server->tenant->uid);
		server_end(server, false);
		return false;
	}
	process_signal(server->pidfd, number);
	return true;
}

static void on_server_overdue(uv_timer_t *timer)
{
	struct server *server = timer->data;

	if (server->n_kills == 0) {
		server_log(server, "Server %d did not %s in time: sending SIGTERM", server->pid,
			server->overdue);
		if (!server->error.text[0])
			error_message_set(&server->error, 0, "Server %d did not %s in time%s%s",
				server->pid, server->overdue,
				server->last_line[0] ? ", its last output: " : "",
				server->last_line);
		if (!signal_server(server, SIGTERM))
			return;
	} else if (server->n_kills == 1) {
		server_log(server, "Server %d ignores SIGTERM: sending SIGKILL", server->pid);
		if (!signal_server(server, SIGKILL))
			return;
	} else {
		server_log(server,
			"Server %d cannot be killed: the system may have to be restarted",
			server->pid);
		server_end(server, false);
		return;
	}
	await_signal_effect(server, server->n_kills + 1);
}

void server_kill(struct server *server, const struct error_message *error)
{
	server->error = *error;
	if (!signal_server(server, SIGKILL))
		return;
	await_signal_effect(server, 2);
}

/* ---- stopped */

static const char continue_after_stop[] = "continue after it was stopped";

/* What the server was to do by then counts again when it continues. */
static void bound_stop(struct server *server, int number)
{
	uint64_t now = uv_now(&server->daemon->loop), end_ms = server_end_ms(server);
	uint64_t left_ms =
		server->overdue ? server->deadline_ms - MIN(now, server->deadline_ms) : 0;

	if (server->overdue && left_ms <= end_ms)
		return;
	tenant_log(server->tenant, ABOUT(server),
		"Server %d was stopped by signal %d (%s): it has %d s to continue", server->pid,
		number, strsignal(number), (int)(end_ms / 1000));
	server->held_overdue = server->overdue;
	server->held_ms = left_ms;
	server_set_deadline(server, end_ms, continue_after_stop);
}

static void unbound_stop(struct server *server)
{
	tenant_log(server->tenant, ABOUT(server), "Server %d continues", server->pid);
	if (server->held_overdue)
		server_set_deadline(server, server->held_ms, server->held_overdue);
	else
		server_clear_deadline(server);
}

/*
 * A stopped server would hold up its clients and every new one, also while it starts. Stops by a
 * tracer (a debugger) are reported only to the tracer.
 */
void server_check_stopped(struct server *server)
{
	siginfo_t info = {0};

	if (!server->is_child ||
		waitid(P_PID, (id_t)server->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) < 0 ||
		info.si_pid == 0 || server->n_kills > 0)
		return;
	if (info.si_code == CLD_STOPPED && server->overdue != continue_after_stop)
		bound_stop(server, info.si_status);
	else if (info.si_code == CLD_CONTINUED && server->overdue == continue_after_stop)
		unbound_stop(server);
}

/* ---- its start */

static int server_watch_output(struct server *server, int output)
{
	int r = uv_poll_init(&server->daemon->loop, &server->output_poll, output);

	if (r < 0)
		return r;
	server->n_handles++;
	server->output_poll.data = server;
	server->output = output;
	uv_poll_start(&server->output_poll, UV_READABLE, on_server_output);
	return 0;
}

/* `layers' has what the commands set. */
static struct settings fold_with_file(const struct daemon *daemon, uid_t uid,
	const struct settings *layers[LAYERS], const struct devices *devices)
{
	const struct config_section *user = config_file_find_user(&daemon->config_file, uid);

	layers[LAYER_ENVIRONMENT] = &daemon->environment;
	layers[LAYER_DEFAULT] = &daemon->default_file;
	layers[LAYER_SECTION] = user ? &user->settings : NULL;
	return settings_fold(layers, devices);
}

struct settings server_settings(const struct server *server, uid_t uid)
{
	const struct daemon *daemon = server->daemon;
	struct settings default_commands = server->default_commands;
	const struct settings *layers[LAYERS] = {
		[LAYER_DEFAULT_COMMAND] = &default_commands,
		[LAYER_COMMAND] = &server->commands,
		/* With -M, the server has clients of other users, too. */
		[LAYER_WISH] = uid == server->tenant->uid ? &server->wish : NULL,
	};

	/* The default priority counts for running servers, too. */
	default_commands.priority = daemon->default_commands.priority;
	return fold_with_file(
		daemon, uid, layers, server->devices.n > 0 ? &server->devices : &daemon->devices);
}

/* Takes the descriptors in `spawned', on failure too. `spare_of': NULL, or the server. */
static int server_new(struct slot *slot, const struct spawned *spawned, struct server *spare_of,
	struct server **ret)
{
	_cleanup_close_ int pidfd = spawned->pidfd, output = spawned->output;
	_cleanup_free_ struct server *server = calloc(1, sizeof(*server));
	struct daemon *daemon = slot->tenant->daemon;
	int r;

	if (!server)
		return -ENOMEM;
	r = uv_poll_init(&daemon->loop, &server->exit_poll, pidfd);
	if (r < 0)
		return r;
	uv_timer_init(&daemon->loop, &server->timer);
	uv_timer_init(&daemon->loop, &server->handover_timer);
	server->n_handles = 3;
	server->daemon = daemon;
	server->output = -EBADF;
	/* The server can serve without its output. */
	if (output >= 0 && server_watch_output(server, output) == 0)
		TAKE_FD(output);
	server->exit_poll.data = server->timer.data = server->handover_timer.data = server;
	uv_poll_start(&server->exit_poll, UV_READABLE, on_server_exit);
	server->pid = spawned->pid;
	server->pidfd = TAKE_FD(pidfd);
	server->slot = slot;
	server->tenant = slot->tenant;
	server->state = SERVER_INITIALIZING;
	list_init(&server->clients);
	list_init(&server->terminations);
	list_init(&server->restarters);
	list_init(&server->group_shares);
	server->default_commands = daemon->default_commands;
	settings_init(&server->commands);
	settings_init(&server->wish);
	server->grace_ms = daemon->config.grace_ms;
	server->idle_ms = uv_now(&daemon->loop);
	place_take(server, spare_of);
	*ret = TAKE_PTR(server);
	return 0;
}

static int start_process(
	struct slot *slot, bool is_successor, struct server *spare_of, struct error_message *error)
{
	struct tenant *tenant = slot->tenant;
	struct daemon *daemon = tenant->daemon;
	struct spawned spawned;
	struct server *server;
	int r;

	r = spawn_server(&daemon->config, tenant->uid, tenant->has_gid ? &tenant->gid : NULL,
		slot->devices, is_successor, &spawned, error);
	if (r < 0)
		return r;
	log_control_about(&daemon->logs,
		&(struct log_subject){.server = spawned.pid, .is_new_server = true},
		"Starting new server %d for user %u", spawned.pid, tenant->uid);
	r = server_new(slot, &spawned, spare_of, &server);
	if (r < 0) {
		kill(spawned.pid, SIGKILL);
		waitpid(spawned.pid, NULL, 0);
		return error_message_set(error, r, "Cannot watch the new server: %s", strerror(-r));
	}
	server->is_child = server->knows_clients = true;
	usage_count(daemon, tenant->uid, USAGE_SERVER_START);
	/* Without a start time the record would one day name another process. */
	if (process_start_time(spawned.pid, &server->start_time) < 0)
		server->start_time = 0;
	server_watch_start(server);
	server_set_deadline(server, SERVER_START_MS, "become ready");
	return 0;
}

int server_start(struct slot *slot, struct error_message *error)
{
	return start_process(slot, false, NULL, error);
}

int server_start_successor(struct server *server, struct error_message *error)
{
	return start_process(server->slot, true, NULL, error);
}

int server_start_spare(struct server *server, struct error_message *error)
{
	int r = start_process(server->slot, true, server, error);

	if (r < 0)
		server->spare_ms = uv_now(&server->daemon->loop);
	else
		server_log(server, "Server %d is the spare of server %d", server->spare->pid,
			server->pid);
	return r;
}

/* A pidfd of the recorded process, unless its PID belongs to another process by now. */
static int open_recorded_process(const struct record *record)
{
	_cleanup_close_ int pidfd = process_open(record->pid);
	uint64_t start_time = 0;
	int r = pidfd < 0 ? pidfd : process_start_time(record->pid, &start_time);

	if (r < 0)
		return r;
	if (start_time != record->start_time)
		return -ESRCH;
	r = process_check(pidfd, record->pid, record->uid);
	return r < 0 ? r : TAKE_FD(pidfd);
}

void server_adopt(struct slot *slot, const struct record *record)
{
	const struct tenant *tenant = slot->tenant;
	const struct spawned spawned = {
		.pid = record->pid, .pidfd = open_recorded_process(record), .output = -EBADF};
	struct log_files *logs = &tenant->daemon->logs;
	struct server *server = NULL;
	int r = spawned.pidfd < 0 ? spawned.pidfd : server_new(slot, &spawned, NULL, &server);

	if (!server) {
		log_control(logs, "Server %d of user %u of the previous daemon is not adopted: %s",
			record->pid, tenant->uid, strerror(-r));
		return;
	}
	server->start_time = record->start_time;
	log_control(logs, "Server %d of user %u was started by the previous daemon", record->pid,
		tenant->uid);
	server_set_deadline(server, server_end_ms(server), "connect to the new daemon");
}

void server_release(struct server *server)
{
	server_log(server,
		"Server %d of user %u is of another version than this daemon: it works for its "
		"clients until they have ended, and new clients get another server",
		server->pid, server->tenant->uid);
	server_end(server, true);
}

static void send_output_pipe(struct server *server)
{
	_cleanup_close_ int output = -EBADF, input = -EBADF;
	const struct frame_output frame = {.head = frame_head(FRAME_OUTPUT, 1)};
	int pair[2], r;

	if (server->output >= 0)
		return;
	r = pipe2(pair, O_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0) {
		output = pair[0];
		input = pair[1];
		fcntl(output, F_SETFL, O_NONBLOCK);
		r = conn_send(server->conn, &frame, input);
	}
	if (r == 0)
		r = server_watch_output(server, output);
	if (r == 0)
		TAKE_FD(output);
	else
		server_log(server, "The output of server %d is not logged from now on: %s",
			server->pid, strerror(-r));
}

static void on_adopted_link(struct server *server)
{
	if (server->output < 0)
		server_log(
			server, "Adopted server %d of user %u", server->pid, server->tenant->uid);
	send_output_pipe(server);
	if (!server->was_active && server->state != SERVER_STOPPING)
		server_set_deadline(server, SERVER_START_MS, "become ready");
}

void server_on_link(struct server *server)
{
	if (server->has_lost_link)
		tenant_log(server->tenant, ABOUT(server), "Server %d of user %u is connected again",
			server->pid, server->tenant->uid);
	server->has_lost_link = false;
	if (!server->is_child)
		on_adopted_link(server);
}

void server_on_link_lost(struct server *server)
{
	/* A server that ends has said so before. */
	if (server->state != SERVER_ACTIVE)
		return;
	server->has_lost_link = true;
	tenant_log(server->tenant, ABOUT(server), "Server %d of user %u has lost its connection",
		server->pid, server->tenant->uid);
}

struct record server_record(const struct server *server)
{
	const struct slot *slot = server->slot;
	struct record record = {
		.pid = server->pid,
		.uid = server->tenant->uid,
		.start_time = server->start_time,
		.is_isolated = slot->is_isolated,
		.program = slot->program,
		.client_uid = slot->uid,
	};

	memcpy(record.name, slot->name, sizeof(record.name));
	return record;
}

uint64_t server_end_ms(const struct server *server)
{
	return (uint64_t)server->grace_ms + END_MS;
}

const char *server_state_name(const struct server *server)
{
	static const char *const names[] = {
		[SERVER_INITIALIZING] = "INITIALIZING",
		[SERVER_ACTIVE] = "ACTIVE",
		[SERVER_FAULT] = "FAULT",
		[SERVER_STOPPING] = "STOPPING",
	};

	return names[server->state];
}

struct server *server_find(const struct daemon *daemon, pid_t pid)
{
	list_each (struct server, server, &daemon->servers, link_in_daemon)
		if (server->pid == pid)
			return server;
	list_each (struct server, spare, &daemon->spares, link_in_daemon)
		if (spare->pid == pid)
			return spare;
	return NULL;
}

bool server_is_ready(const struct server *server)
{
	return server->state == SERVER_ACTIVE && server->conn && !server->successor &&
	       !server->predecessor;
}

bool server_is_idle(const struct server *server)
{
	return server_is_ready(server) && server->n_clients == 0 && !server->in_flight;
}

/* ---- asked to end */

void server_check_idle(struct server *server)
{
	unsigned idle_s = server->daemon->config.idle_s;
	bool is_isolated = server->slot->is_isolated;

	if (is_isolated && (idle_s == 0 || idle_s > ISOLATED_IDLE_S))
		idle_s = ISOLATED_IDLE_S;
	if (*server->slot->name || idle_s == 0 || !server_is_idle(server) ||
		uv_now(&server->daemon->loop) - server->idle_ms < (uint64_t)idle_s * 1000)
		return;
	server_log(server, "Server %d of user %u has had no clients for %u s%s", server->pid,
		server->tenant->uid, idle_s,
		is_isolated ? " (the server of an isolated program)" : " (MPS_IDLE_S)");
	server_shutdown(server, false);
}

/* A server that is to end does so in bounded time once it has no clients to wait for. */
void server_bound_end(struct server *server)
{
	if (server->n_kills > 0 || server->state != SERVER_STOPPING)
		return;
	if (server->is_forced || server->n_clients == 0)
		server_set_deadline(server, server_end_ms(server), "end");
	else if (server->overdue != continue_after_stop)
		/*
		 * A stopped server keeps its deadline, as it would hold up its clients and the
		 * next server.
		 */
		server_clear_deadline(server);
}

void server_shutdown(struct server *server, bool force)
{
	bool was_stopping = server->state == SERVER_STOPPING;
	bool was_introduced = !server->is_child || server->conn || server->was_active;

	if (was_stopping && (server->is_forced || !force))
		return;
	server_log(server, "Try shutting down server %d, backoff is disabled%s", server->pid,
		force ? "; not waiting for its clients" : "");
	if (server->n_clients > 0 && !force)
		server_log(server,
			"Server %d has %u active worker threads. It will shut down when they have "
			"ended",
			server->pid, server->n_clients);
	server->state = SERVER_STOPPING;
	server->is_asked = true;
	server->is_forced |= force;
	if (!was_introduced && !was_stopping) {
		/* The server has no clients and does not listen yet. */
		if (!signal_server(server, SIGTERM))
			return;
		await_signal_effect(server, 1);
		return;
	}
	server_send_shutdown(server);
	server_bound_end(server);
}
