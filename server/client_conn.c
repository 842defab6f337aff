/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Clients: welcomed, watched, disconnected. Loop thread.
 *
 * Invariant: a client_conn on the server's list has a session whose worker was started and,
 * unless the client_conn is inactive, not yet joined.
 */

#include "client_conn.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "async_close.h"
#include "bound.h"
#include "quote.h"
#include "server.h"
#include "sharer.h"
#include "spec_hash.h"
#include "suspension.h"
#include "wire.h"
#include "worker.h"
#include "server/util/log.h"
#include "server/session/at_work.h"
#include "server/session/session.h"
#include "server/driver/driver.h"
#include "server/device/device_quota.h"
#include "server/device/priority.h"
#include "server/schedule/probation.h"
#include "server/share/grant.h"
#include "server/link/counter_report.h"
#include "server/link/daemon_link.h"
#include "server/link/fault_report.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static void text_copy(char *dst, const char *src, size_t size)
{
	size_t n = strnlen(src, size - 1);

	memcpy(dst, src, n);
	memset(dst + n, 0, size - n);
}

/* `limits' and `group' are NULL for a client without. A new daemon does not know them yet. */
static void send_note(struct frame_client_note *note, enum frame_type type, const char *command,
	const struct frame_limits *limits, const struct group *group)
{
	frame_init(note, type, 0);
	memcpy(note->command, command, sizeof(note->command));
	if (limits)
		memcpy(note->partition, limits->partition, sizeof(note->partition));
	text_copy(note->group, group ? group->name : "", sizeof(note->group));
	daemon_link_send(note);
}

void client_conn_notify(const struct client_conn *conn, enum frame_type type)
{
	const struct session *session = conn->session;
	struct frame_client_note note = {
		.id = conn->id, .pid = (uint64_t)conn->pid, .program = conn->program};

	note.uid = session ? (uint32_t)session->uid : 0;
	note.probation_ms = session ? probation_left_ms(session) : 0;
	send_note(&note, type, conn->command, session ? &session->limits : NULL,
		session ? session->group : NULL);
}

void client_conn_notify_of(const struct frame_client *client, enum frame_type type)
{
	struct group *group = group_find(client->group);
	struct frame_client_note note = {.id = client->id,
		.pid = client->pid,
		.uid = client->uid,
		.program = client->hello.program};

	send_note(&note, type, client->hello.command, &client->limits, group);
	group_unref(group);
}

void client_conn_refuse(
	const struct frame_client *client, int connection, uint32_t result, const char *text)
{
	struct frame_refused refused = {0};

	log_line("Client process %d is refused: %s", (int)client->pid, text);
	frame_init(&refused, FRAME_REFUSED, 0);
	refused.result = result;
	text_copy(refused.text, text, sizeof(refused.text));
	frame_send(connection, &refused, NULL, 0);
	client_conn_notify_of(client, FRAME_CLIENT_GONE);
}

static bool is_unknown_group(uint32_t id)
{
	struct group *group = group_find(id);

	group_unref(group);
	return id != 0 && !group;
}

bool client_conn_has_unknown_group(const struct frame_client *client)
{
	bool is_unknown = is_unknown_group(client->group);

	for (unsigned i = 0; i < CGROUP_LEVELS_MAX; i++)
		is_unknown |= is_unknown_group(client->cgroups[i]);
	return is_unknown;
}

/* NULL, or the reason why this client cannot be served. */
static const char *find_objection(const struct server *server, const struct frame_client *client,
	int connection, CUresult *ret_result)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	*ret_result = CUDA_ERROR_MPS_CONNECTION_FAILED;
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return "its connection has no credentials";
	if (cred.uid != client->uid || (!server->is_multiuser && cred.uid != server->uid)) {
		*ret_result = CUDA_ERROR_NOT_PERMITTED;
		return "it belongs to another user than this server";
	}
	if (client->hello.version != FRAME_VERSION || client->hello.spec_hash != SPEC_HASH)
		return "its library and this server are of different builds: install the same "
		       "version of both, and restart the daemon";
	if (server->is_stopping || server->is_faulted) {
		*ret_result = CUDA_ERROR_MPS_SERVER_NOT_READY;
		return "the server is shutting down: try again";
	}
	if (server->n_conns >= SESSIONS_MAX) {
		*ret_result = CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
		return "the server has reached its limit of clients";
	}
	if (client_conn_has_unknown_group(client))
		return "the daemon has not sent the limits of its group to this server";
	return NULL;
}

static int client_conn_welcome(const struct client_conn *conn)
{
	struct frame_welcome frame = {0};

	frame_init(&frame, FRAME_WELCOME, FRAME_WELCOME_FDS);
	frame.version = FRAME_VERSION;
	frame.session = conn->session->id;
	frame.spec_hash = SPEC_HASH;
	frame.server_pid = (uint64_t)getpid();
	text_copy(frame.cuda_library, driver_path(), sizeof(frame.cuda_library));
	return frame_send(conn->connection, &frame, conn->memories, 0);
}

static void client_conn_on_news(void *arg)
{
	struct server *server = arg;

	uv_async_send(&server->news);
}

static void on_end(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	client_conn_end(poll->data);
}

void client_conn_free(struct client_conn *conn)
{
	if (!conn)
		return;
	if (conn->session)
		device_quotas_unref(conn->session);
	session_free(conn->session);
	sharer_remove_session(conn->process);
	async_close(conn->connection);
	closep(&conn->pidfd);
	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		closep(&conn->memories[i]);
	free(conn);
}

static void client_conn_freep(struct client_conn **conn)
{
	client_conn_free(*conn);
}

/* The process behind the connection; -EBADF if the kernel or a namespace hides it. */
static int open_pidfd(int connection, pid_t pid)
{
	socklen_t size = sizeof(int);
	int fd = -1;

	if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
		return fd;
	fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	return fd < 0 ? -EBADF : fd;
}

/* From here on the loop owns it. */
static void client_conn_watch(struct client_conn *conn)
{
	uv_loop_t *loop = &conn->server->loop;

	conn->hangup.data = conn->death.data = conn;
	conn->has_hangup = uv_poll_init(loop, &conn->hangup, conn->connection) == 0;
	conn->has_death = conn->pidfd >= 0 && uv_poll_init(loop, &conn->death, conn->pidfd) == 0;
	if (conn->has_hangup)
		uv_poll_start(&conn->hangup, UV_DISCONNECT, on_end);
	if (conn->has_death)
		uv_poll_start(&conn->death, UV_READABLE, on_end);
	/* Without a notice of the client's end, the server must not keep the client. */
	if (!conn->has_hangup)
		client_conn_end(conn);
}

/*
 * If the kernel supports it, the daemon's socket refuses descriptors. Images and memory come
 * with descriptors.
 */
static void allow_descriptors(int connection)
{
	const int on = 1;

	setsockopt(connection, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on));
}

static void client_conn_grant(
	struct session *session, const struct frame_client *client, bool is_moved)
{
	const struct frame_variable *own = &client->hello.client_priority;
	struct frame_limits limits = client->limits;
	struct quoted quoted;

	if (!priority_choose(own, client->limits.priority, &limits.priority))
		log_line("Client process %d has CUDA_MPS_CLIENT_PRIORITY=%s, which is ignored: 0 "
			 "(normal), 1 (below normal) and 2 (background) are accepted",
			(int)client->pid, quote(&quoted, own->value));
	for (unsigned i = 0; i < CGROUP_LEVELS_MAX; i++)
		session->cgroups[i] = group_find(client->cgroups[i]);
	if (is_moved)
		grant_set_moved(session, &limits, group_find(client->group));
	else
		grant_set(session, &limits, group_find(client->group));
}

static void init_session(struct client_conn *conn, const struct frame_client *client, bool is_moved)
{
	struct session *session = conn->session;

	client_conn_grant(session, client, is_moved);
	session->pid = conn->pid;
	session->uid = (uid_t)client->uid;
	session->account_uid = (uid_t)client->account;
	session->command = conn->command;
	session->program = conn->program;
	probation_set(session, client->limits.probation_ms);
	session->continues = client->hello.continues;
	session->connection = conn->connection;
	session->on_news = client_conn_on_news;
	session->on_news_arg = conn->server;
}

int client_conn_make(struct server *server, const struct frame_client *client, uint32_t session_id,
	int connection, const int memories[FRAME_WELCOME_FDS], struct client_conn **ret_conn)
{
	_cleanup_(client_conn_freep) struct client_conn *conn = calloc(1, sizeof(*conn));
	int r;

	if (!conn) {
		closep(&connection);
		for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
			closep(&(int){memories[i]});
		return -ENOMEM;
	}
	conn->server = server;
	conn->id = client->id;
	conn->pid = (pid_t)client->pid;
	conn->gid = client->gid;
	conn->account = client->account;
	conn->program = client->hello.program;
	memcpy(conn->command, client->hello.command, sizeof(conn->command));
	conn->connection = connection;
	conn->pidfd = -EBADF;
	memcpy(conn->memories, memories, sizeof(conn->memories));
	r = sharer_add_session(server, client, &conn->process);
	if (r < 0)
		return r;
	r = session_new_moved(session_id, sharer_quotas(conn->process), bound_met, &conn->session,
		conn->memories);
	if (r < 0)
		return r;
	server->last_session = MAX(server->last_session, session_id);
	init_session(conn, client, memories[0] >= 0);
	conn->pidfd = open_pidfd(connection, conn->pid);
	allow_descriptors(connection);
	*ret_conn = TAKE_PTR(conn);
	return 0;
}

int client_conn_start(struct client_conn *conn)
{
	struct server *server = conn->server;
	int r;

	log_line("Creating worker thread for client " SESSION_NAME,
		SESSION_NAME_ARGS(conn->session));
	r = session_start(conn->session);
	if (r < 0)
		return r;
	LIST_PUSH(server->conns, conn);
	server->n_conns++;
	server_start_looks(server);
	client_conn_watch(conn);
	return 0;
}

static int welcome_new(struct server *server, const struct frame_client *client, int connection)
{
	static const int none[FRAME_WELCOME_FDS] = {-EBADF, -EBADF, -EBADF};
	_cleanup_(client_conn_freep) struct client_conn *conn = NULL;
	int own = fcntl(connection, F_DUPFD_CLOEXEC, 3);
	int r;

	if (own < 0)
		return -errno;
	r = client_conn_make(server, client, server->last_session + 1, own, none, &conn);
	if (r == 0)
		r = client_conn_welcome(conn);
	if (r < 0)
		return r;
	log_line("Client {PID: %d, Context ID: %u} connected", (int)conn->pid, conn->session->id);
	r = client_conn_start(conn);
	if (r == 0)
		TAKE_PTR(conn);
	return r;
}

void client_conn_new(struct server *server, const struct frame_client *client, int connection)
{
	_cleanup_(async_closep) int fd = connection;
	const char *objection;
	CUresult result;
	int r;

	log_line("Received new client request for {PID: %d, Context ID: %u}", (int)client->pid,
		server->last_session + 1);
	objection = find_objection(server, client, fd, &result);
	if (objection) {
		client_conn_refuse(client, fd, result, objection);
		return;
	}
	r = welcome_new(server, client, fd);
	if (r == -EPIPE || r == -ECONNRESET) {
		log_line("Client process %d disconnected", (int)client->pid);
		client_conn_notify_of(client, FRAME_CLIENT_GONE);
	} else if (r == -EUSERS) {
		client_conn_refuse(client, fd, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"its process or its user has as many sessions of this server as it leaves "
			"to the others");
	} else if (r < 0) {
		char text[FRAME_TEXT_MAX];

		snprintf(text, sizeof(text), "the server cannot make a session: %s",
			strerrordesc_np(-r));
		client_conn_refuse(client, fd, CUDA_ERROR_MPS_CONNECTION_FAILED, text);
	}
}

/*
 * After its last handle was closed. FRAME_CLIENT_GONE means that nothing of the client is
 * left in this server.
 */
static void free_closed(struct client_conn *conn)
{
	struct server *server = conn->server;
	const struct client_conn gone = {.id = conn->id, .pid = conn->pid};

	if (conn->has_hangup || conn->has_death)
		return;
	client_conn_free(conn);
	server->n_conns--;
	client_conn_notify(&gone, FRAME_CLIENT_GONE);
	server_conn_gone(server);
}

static void on_closed(uv_handle_t *handle)
{
	struct client_conn *conn = handle->data;

	*(handle == (uv_handle_t *)&conn->death ? &conn->has_death : &conn->has_hangup) = false;
	free_closed(conn);
}

static void client_conn_forget(struct client_conn *conn)
{
	log_line("Client process %d disconnected", (int)conn->pid);
	LIST_DROP(conn->server->conns, conn);
	if (conn->has_death)
		uv_close((uv_handle_t *)&conn->death, on_closed);
	if (conn->has_hangup)
		uv_close((uv_handle_t *)&conn->hangup, on_closed);
	free_closed(conn);
}

/* Ends its work: the worker drops what is queued and gives everything back. */
static void end_work(struct client_conn *conn)
{
	if (conn->is_ending)
		return;
	conn->is_ending = true;
	conn->ending_ms = conn->grace_from_ms = uv_now(&conn->server->loop);
	session_end(conn->session);
	server_start_tick(conn->server);
}

void client_conn_end(struct client_conn *conn)
{
	if (conn->has_left)
		return;
	conn->has_left = true;
	if (conn->has_hangup)
		uv_poll_stop(&conn->hangup);
	if (conn->has_death)
		uv_poll_stop(&conn->death);
	if (conn->is_inactive)
		client_conn_forget(conn);
	else
		end_work(conn);
}

bool client_conn_waits_for_others(const struct client_conn *conn)
{
	if (atomic_load(&conn->session->waits_for_others))
		return true;
	if (session_is_at_work(conn->session))
		return false;
	for (const struct client_conn *other = conn->server->conns; other; other = other->next)
		if (session_is_at_work(other->session))
			return true;
	return false;
}

bool client_conn_gives_back(struct client_conn *conn)
{
	uint64_t held = account_held(conn->session->account);
	uint32_t n_unpinned = atomic_load(&conn->session->n_unpinned);
	bool has_changed = held != conn->seen_held || n_unpinned != conn->seen_unpinned;

	conn->seen_held = held;
	conn->seen_unpinned = n_unpinned;
	return has_changed && !session_is_at_work(conn->session);
}

void client_conn_answer_terminate(uint64_t id, uint32_t result)
{
	struct frame_terminate frame = {.client = id, .result = result};

	frame_init(&frame, FRAME_TERMINATED, 0);
	daemon_link_send(&frame);
}

void client_conns_answer_terminate(const struct client_conn *conns)
{
	for (const struct client_conn *conn = conns; conn; conn = conn->next)
		if (conn->is_terminated && !conn->is_inactive)
			client_conn_answer_terminate(conn->id, CUDA_SUCCESS);
}

static void end_with_error(struct client_conn *conn)
{
	conn->is_terminated = true;
	session_set_fault(conn->session, CUDA_ERROR_MPS_CLIENT_TERMINATED);
	end_work(conn);
}

void client_conn_terminate(struct client_conn *conn)
{
	if (conn->is_inactive) {
		client_conn_answer_terminate(conn->id, CUDA_SUCCESS);
		return;
	}
	if (!conn->is_terminated)
		log_line("Client " SESSION_NAME " is terminated by the operator",
			SESSION_NAME_ARGS(conn->session));
	end_with_error(conn);
}

static void note_terminated(struct client_conn *conn)
{
	log_line("Status of client " SESSION_NAME " is INACTIVE", SESSION_NAME_ARGS(conn->session));
	client_conn_answer_terminate(conn->id, CUDA_SUCCESS);
	/* A server that ends does not wait for a process whose calls all fail. */
	conn->is_inactive = !conn->has_left && !conn->server->is_stopping;
}

/* The worker has ended: nothing of the client is left in the driver. */
static void client_conn_reap(struct client_conn *conn)
{
	struct server *server = conn->server;

	pthread_join(conn->session->thread, NULL);
	counters_report_client(conn);
	fault_report_note_end(&server->fault_report, conn);
	server->n_active -= conn->is_active;
	if (conn->is_terminated)
		note_terminated(conn);
	else if (conn->is_active)
		log_line("Client " SESSION_NAME " exiting. Number of active client contexts is %u.",
			SESSION_NAME_ARGS(conn->session), server->n_active);
	if (!conn->is_inactive)
		client_conn_forget(conn);
}

static void notify_context(const struct client_conn *conn, uint32_t ordinal)
{
	const struct session *session = conn->session;
	const struct grant *grant = &session->grants[ordinal];
	struct frame_context frame = {0};

	frame_init(&frame, FRAME_CONTEXT, 0);
	frame.client = conn->id;
	frame.ordinal = ordinal;
	frame.session = session->id;
	frame.n_sms = grant->n_sms;
	frame.priority = grant->priority;
	frame.memory = grant_memory_limit(session, ordinal);
	daemon_link_send(&frame);
}

/* Of the GPUs that the worker has opened since. */
static void notify_new_contexts(struct client_conn *conn)
{
	uint64_t granted = atomic_load(&conn->session->granted) & ~conn->notified;

	conn->notified |= granted;
	for (uint32_t i = 0; i < DEVICES_MAX; i++)
		if (granted >> i & 1)
			notify_context(conn, i);
}

void client_conn_notify_contexts(struct client_conn *conn)
{
	conn->notified = 0;
	notify_new_contexts(conn);
}

void client_conn_note_group(struct client_conn *conn)
{
	if (!conn->session->group && !conn->session->cgroups[0])
		return;
	grant_publish_memory(conn->session);
	client_conn_notify_contexts(conn);
}

void client_conn_update(struct client_conn *conn)
{
	notify_new_contexts(conn);
	suspension_update(conn);
	if (!conn->is_active && atomic_load(&conn->session->is_active)) {
		conn->is_active = true;
		conn->server->n_active++;
	}
	if (!conn->is_ending && atomic_load(&conn->session->has_to_end))
		end_with_error(conn);
	if (!conn->is_inactive && atomic_load(&conn->session->is_done))
		client_conn_reap(conn);
}

/* After 5 s, 10 s, 20 s and so on. */
static bool is_time_to_log(unsigned ms)
{
	unsigned n = ms / WATCHDOG_LOOK_MS;

	return n > 0 && (n & (n - 1)) == 0;
}

void client_conn_check_watchdog(struct client_conn *conn)
{
	struct session *session = conn->session;
	unsigned op, ms = watchdog_check(&session->watchdog, &op);

	if (is_time_to_log(ms))
		log_line("Client " SESSION_NAME ": its %s has taken more than %u s so far",
			SESSION_NAME_ARGS(session),
			op == WATCHDOG_CLEAN_UP ? "end" : op_name((uint16_t)op), ms / 1000);
}
