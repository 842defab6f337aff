/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Clients: welcomed, watched, seen off. Loop thread.
 *
 * Invariant: a peer on the server's list has a session whose worker was
 * started and, unless the peer is inactive, not yet joined.
 */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "async_close.h"
#include "bound.h"
#include "server/driver/driver.h"
#include "server/driver/grant.h"
#include "server/util/log.h"
#include "server/driver/priority.h"
#include "quote.h"
#include "server.h"
#include "server/session/session.h"
#include "spec_hash.h"
#include "terminate.h"
#include "user.h"
#include "wire.h"
#include "worker.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static void text_copy(char *dst, const char *src, size_t size)
{
	size_t n = strnlen(src, size - 1);

	memcpy(dst, src, n);
	memset(dst + n, 0, size - n);
}

void peer_tell(struct server *server, const struct peer *peer, enum frame_type type)
{
	struct frame_client_note note = {0};

	frame_init(&note, type, 0);
	note.id = peer->id;
	note.pid = (uint64_t)peer->pid;
	note.uid = peer->session ? (uint32_t)peer->session->uid : 0;
	note.program = peer->program;
	memcpy(note.command, peer->command, sizeof(note.command));
	control_send(server, &note);
}

void peer_tell_of(struct server *server, const struct frame_client *client, enum frame_type type)
{
	struct frame_client_note note = {0};

	frame_init(&note, type, 0);
	note.id = client->id;
	note.pid = client->pid;
	note.uid = client->uid;
	note.program = client->hello.program;
	memcpy(note.command, client->hello.command, sizeof(note.command));
	control_send(server, &note);
}

void peer_refuse(struct server *server, const struct frame_client *client, int connection,
	uint32_t result, const char *text)
{
	struct frame_refused refused = {0};

	log_line("Client process %d is refused: %s", (int)client->pid, text);
	frame_init(&refused, FRAME_REFUSED, 0);
	refused.result = result;
	text_copy(refused.text, text, sizeof(refused.text));
	frame_send(connection, &refused, NULL, 0);
	peer_tell_of(server, client, FRAME_CLIENT_GONE);
}

static bool has_unknown_group(const struct frame_client *client)
{
	struct group *group = group_find(client->group);

	group_unref(group);
	return client->group != 0 && !group;
}

/* NULL, or why this client cannot be served. */
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
	if (server->n_peers >= SESSIONS_MAX) {
		*ret_result = CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
		return "the server has as many clients as it can have";
	}
	if (has_unknown_group(client))
		return "the daemon has not told this server the limits of its group";
	return NULL;
}

static int client_conn_welcome(const struct peer *peer, const int fds[FRAME_WELCOME_FDS])
{
	struct frame_welcome frame = {0};

	frame_init(&frame, FRAME_WELCOME, FRAME_WELCOME_FDS);
	frame.version = FRAME_VERSION;
	frame.session = peer->session->id;
	frame.spec_hash = SPEC_HASH;
	frame.server_pid = (uint64_t)getpid();
	text_copy(frame.cuda_library, driver_path(), sizeof(frame.cuda_library));
	return frame_send(peer->connection, &frame, fds, 0);
}

static void client_conn_on_news(void *arg)
{
	struct server *server = arg;

	uv_async_send(&server->news);
}

static void on_end(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	peer_end(poll->data);
}

static void peer_free(struct peer *peer)
{
	session_free(peer->session);
	user_remove_client(peer->user);
	async_close(peer->connection);
	closep(&peer->pidfd);
	free(peer);
}

static void peer_freep(struct peer **peer)
{
	if (*peer)
		peer_free(*peer);
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
static void client_conn_watch(struct peer *peer)
{
	uv_loop_t *loop = &peer->server->loop;

	peer->hangup.data = peer->death.data = peer;
	peer->has_hangup = uv_poll_init(loop, &peer->hangup, peer->connection) == 0;
	peer->has_death = peer->pidfd >= 0 && uv_poll_init(loop, &peer->death, peer->pidfd) == 0;
	if (peer->has_hangup)
		uv_poll_start(&peer->hangup, UV_DISCONNECT, on_end);
	if (peer->has_death)
		uv_poll_start(&peer->death, UV_READABLE, on_end);
	/* A client whose end nobody would see is none. */
	if (!peer->has_hangup)
		peer_end(peer);
}

static int client_conn_start(struct peer *peer, const struct frame_client *client)
{
	struct session *session = peer->session;

	session->pid = peer->pid;
	session->uid = (uid_t)client->uid;
	session->connection = peer->connection;
	session->on_news = client_conn_on_news;
	session->on_news_arg = peer->server;
	log_line("Creating worker thread for client " SESSION_NAME, SESSION_NAME_ARGS(session));
	return session_start(session);
}

/* The daemon's socket refuses what images and memory come with, where the kernel can. */
static void allow_descriptors(int connection)
{
	const int on = 1;

	setsockopt(connection, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on));
}

static void client_conn_limit(struct session *session, const struct frame_client *client)
{
	const struct frame_variable *own = &client->hello.client_priority;
	struct frame_limits limits = client->limits;
	struct quoted quoted;

	if (!priority_choose(own, client->limits.priority, &limits.priority))
		log_line("Client process %d has CUDA_MPS_CLIENT_PRIORITY=%s, which is ignored: 0 "
			 "(normal), 1 (below normal) and 2 (background) are accepted",
			(int)client->pid, quote(&quoted, own->value));
	session_limit(session, &limits, group_find(client->group));
}

static int peer_make(struct server *server, const struct frame_client *client, int connection)
{
	_cleanup_(peer_freep) struct peer *peer = calloc(1, sizeof(*peer));
	int fds[FRAME_WELCOME_FDS];
	int r;

	if (!peer)
		return -ENOMEM;
	peer->server = server;
	peer->id = client->id;
	peer->pid = (pid_t)client->pid;
	peer->program = client->hello.program;
	memcpy(peer->command, client->hello.command, sizeof(peer->command));
	peer->connection = peer->pidfd = -EBADF;
	r = user_add_client(server, (uid_t)client->uid, &peer->user);
	if (r < 0)
		return r;
	r = session_new(
		server->last_session + 1, user_quota(peer->user), bound_met, &peer->session, fds);
	if (r < 0)
		return r;
	server->last_session++;
	client_conn_limit(peer->session, client);
	peer->connection = fcntl(connection, F_DUPFD_CLOEXEC, 3);
	peer->pidfd = open_pidfd(connection, peer->pid);
	allow_descriptors(connection);
	r = peer->connection < 0 ? -errno : client_conn_welcome(peer, fds);
	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		close(fds[i]);
	if (r < 0)
		return r;
	log_line("Client {PID: %d, Context ID: %u} connected", (int)peer->pid, peer->session->id);
	r = client_conn_start(peer, client);
	if (r < 0)
		return r;
	peer->next = server->peers;
	server->peers = peer;
	server->n_peers++;
	server_start_looks(server);
	client_conn_watch(TAKE_PTR(peer));
	return 0;
}

void peer_new(struct server *server, const struct frame_client *client, int connection)
{
	_cleanup_(async_closep) int fd = connection;
	const char *objection;
	CUresult result;
	int r;

	log_line("Received new client request for {PID: %d, Context ID: %u}", (int)client->pid,
		server->last_session + 1);
	objection = find_objection(server, client, fd, &result);
	if (objection) {
		peer_refuse(server, client, fd, result, objection);
		return;
	}
	r = peer_make(server, client, fd);
	if (r == -EPIPE || r == -ECONNRESET) {
		log_line("Client process %d disconnected", (int)client->pid);
		peer_tell_of(server, client, FRAME_CLIENT_GONE);
	} else if (r == -EUSERS) {
		peer_refuse(server, client, fd, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
			"its user has as many clients as a user can have in this server");
	} else if (r < 0) {
		char text[FRAME_TEXT_MAX];

		snprintf(text, sizeof(text), "the server cannot make a session: %s",
			strerrordesc_np(-r));
		peer_refuse(server, client, fd, CUDA_ERROR_MPS_CONNECTION_FAILED, text);
	}
}

/* Once no handle of it is open any more. Gone means that nothing of it is left here. */
static void free_closed(struct peer *peer)
{
	struct server *server = peer->server;
	const struct peer gone = {.id = peer->id, .pid = peer->pid};

	if (peer->has_hangup || peer->has_death)
		return;
	peer_free(peer);
	server->n_peers--;
	peer_tell(server, &gone, FRAME_CLIENT_GONE);
	server_peer_gone(server);
}

static void on_hangup_closed(uv_handle_t *handle)
{
	struct peer *peer = handle->data;

	peer->has_hangup = false;
	free_closed(peer);
}

static void on_death_closed(uv_handle_t *handle)
{
	struct peer *peer = handle->data;

	peer->has_death = false;
	free_closed(peer);
}

static void client_conn_forget(struct peer *peer)
{
	struct peer **link = &peer->server->peers;

	log_line("Client process %d disconnected", (int)peer->pid);
	while (*link != peer)
		link = &(*link)->next;
	*link = peer->next;
	if (peer->has_death)
		uv_close((uv_handle_t *)&peer->death, on_death_closed);
	if (peer->has_hangup)
		uv_close((uv_handle_t *)&peer->hangup, on_hangup_closed);
	free_closed(peer);
}

/* Its work ends: the worker drops what is queued and gives everything back. */
static void end_work(struct peer *peer)
{
	if (peer->is_ending)
		return;
	peer->is_ending = true;
	peer->ending_ms = uv_now(&peer->server->loop);
	session_end(peer->session);
	server_start_tick(peer->server);
}

void peer_end(struct peer *peer)
{
	if (peer->has_left)
		return;
	peer->has_left = true;
	if (peer->has_hangup)
		uv_poll_stop(&peer->hangup);
	if (peer->has_death)
		uv_poll_stop(&peer->death);
	if (peer->is_inactive)
		client_conn_forget(peer);
	else
		end_work(peer);
}

void peer_terminate(struct peer *peer)
{
	if (peer->is_inactive) {
		terminate_answer(peer->server, peer->id, CUDA_SUCCESS);
		return;
	}
	if (!peer->is_terminated)
		log_line("Client " SESSION_NAME " is terminated by the operator",
			SESSION_NAME_ARGS(peer->session));
	peer->is_terminated = true;
	session_set_fault(peer->session, CUDA_ERROR_MPS_CLIENT_TERMINATED);
	end_work(peer);
}

static void note_terminated(struct peer *peer)
{
	log_line("Status of client " SESSION_NAME " is INACTIVE", SESSION_NAME_ARGS(peer->session));
	terminate_answer(peer->server, peer->id, CUDA_SUCCESS);
	/* A server that ends does not wait for a process that can do nothing. */
	peer->is_inactive = !peer->has_left && !peer->server->is_stopping;
}

/* The worker has gone: nothing of the client is left in the driver. */
static void client_conn_reap(struct peer *peer)
{
	struct server *server = peer->server;

	pthread_join(peer->session->thread, NULL);
	fault_report_note_end(server, peer);
	server->n_active -= peer->is_active;
	if (peer->is_terminated)
		note_terminated(peer);
	else if (peer->is_active)
		log_line("Client " SESSION_NAME " exiting. Number of active client contexts is %u.",
			SESSION_NAME_ARGS(peer->session), server->n_active);
	if (!peer->is_inactive)
		client_conn_forget(peer);
}

static void tell_context(const struct peer *peer, uint32_t ordinal)
{
	const struct session *session = peer->session;
	const struct grant *grant = &session->grants[ordinal];
	struct frame_context frame = {0};

	frame_init(&frame, FRAME_CONTEXT, 0);
	frame.client = peer->id;
	frame.ordinal = ordinal;
	frame.session = session->id;
	frame.n_sms = grant->n_sms;
	frame.priority = grant->priority;
	frame.memory = session_memory_limit(session, ordinal);
	control_send(peer->server, &frame);
}

/* Of those that the worker has opened since. */
static void tell_new_contexts(struct peer *peer)
{
	uint64_t granted = atomic_load(&peer->session->granted) & ~peer->told;

	peer->told |= granted;
	for (uint32_t i = 0; i < DEVICES_MAX; i++)
		if (granted >> i & 1)
			tell_context(peer, i);
}

void peer_tell_contexts(struct peer *peer)
{
	peer->told = 0;
	tell_new_contexts(peer);
}

void peer_note_group(struct peer *peer)
{
	if (!peer->session->group)
		return;
	session_tell_memory(peer->session);
	peer_tell_contexts(peer);
}

void peer_look(struct peer *peer)
{
	tell_new_contexts(peer);
	if (!peer->is_active && atomic_load(&peer->session->is_active)) {
		peer->is_active = true;
		peer->server->n_active++;
	}
	if (!peer->is_inactive && atomic_load(&peer->session->is_done))
		client_conn_reap(peer);
}

/* After 5 s, 10 s, 20 s and so on. */
static bool is_time_to_tell(unsigned ms)
{
	unsigned n = ms / WATCHDOG_LOOK_MS;

	return n > 0 && (n & (n - 1)) == 0;
}

void peer_check_watchdog(struct peer *peer)
{
	struct session *session = peer->session;
	unsigned op, ms = watchdog_check(&session->watchdog, &op);

	if (is_time_to_tell(ms))
		log_line("Client " SESSION_NAME ": its %s has taken more than %u s so far",
			SESSION_NAME_ARGS(session),
			op == WATCHDOG_CLEAN_UP ? "end" : op_name((uint16_t)op), ms / 1000);
}
