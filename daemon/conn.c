/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections to the control socket. Loop thread.
 *
 * Invariant: this thread never closes a descriptor that a peer has passed,
 * since the peer chooses how long that takes. Bytes are read only after a look
 * has shown that no descriptor comes with them, and connections, in whose
 * queues there may be some, are closed by async_close().
 */

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "admission.h"
#include "async_close.h"
#include "bounds.h"
#include "command_conn.h"
#include "daemon.h"
#include "handshake.h"
#include "allowances.h"
#include "line_buffer.h"
#include "server_conn.h"
#include "conn.h"
#include "server.h"
#include "tenant.h"
#include "tenant_log.h"
#include "termination.h"

/* Frames of one server before others get their turn. */
#define FRAME_BATCH 32

static void on_closed(uv_handle_t *handle)
{
	struct peer *peer = handle->data;

	if (--peer->n_handles > 0)
		return;
	if (!peer->keeps_fd)
		async_close(peer->fd);
	free(peer->out);
	free(peer->again);
	free(peer);
}

static void join_tenant(struct peer *peer, struct tenant *tenant)
{
	peer->tenant = tenant;
	list_add_tail(&tenant->peers, &peer->link);
	tenant->n_peers++;
	if (!daemon_trusts(peer->daemon, tenant->uid))
		peer->daemon->n_guest_peers++;
}

static void leave_tenant(struct peer *peer)
{
	list_remove(&peer->link);
	peer->tenant->n_peers--;
	if (!daemon_trusts(peer->daemon, peer->tenant->uid))
		peer->daemon->n_guest_peers--;
}

void peer_close(struct peer *peer)
{
	bool was_commander = peer->kind == PEER_COMMANDER;
	struct server *server = peer->server;

	if (peer->kind == PEER_CLOSED)
		return;
	peer->kind = PEER_CLOSED;
	peer->server = NULL;
	if (peer->handed_to)
		peer->handed_to->in_flight = NULL;
	list_remove(&peer->wait);
	termination_drop(peer);
	leave_tenant(peer);
	uv_close((uv_handle_t *)&peer->poll, on_closed);
	uv_close((uv_handle_t *)&peer->timer, on_closed);
	if (server)
		link_on_lost(server, peer_is_reset(peer));
	if (was_commander)
		commander_begin_next(peer->tenant);
	daemon_check_quit(peer->daemon);
}

static bool is_client(const struct peer *peer)
{
	if (peer->kind == PEER_STRANGER)
		return peer->in_size >= sizeof(peer->in.head) && peer->in.head.zero == 0 &&
		       peer->in.head.type == FRAME_HELLO;
	return peer->kind == PEER_CLIENT || peer->kind == PEER_HANDED_OVER;
}

void peer_log(struct peer *peer, const char *format, ...)
{
	const struct journal_about about = {
		.server = peer->kind == PEER_SERVER ? peer->cred.pid : 0,
		.client = is_client(peer) ? peer->cred.pid : 0,
		.has_uid = true,
		.uid = peer->cred.uid,
	};
	char text[LINE_MAX_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tenant_log(peer->tenant, &about, "%s", text);
}

ssize_t peer_recv(struct peer *peer, void *bytes, size_t size)
{
	struct iovec iov = {.iov_base = bytes, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t peeked, n;

	/* The queue holds on to descriptors that are only looked at. */
	do
		peeked = recvmsg(peer->fd, &msg, MSG_PEEK | MSG_DONTWAIT);
	while (peeked < 0 && errno == EINTR);
	if (peeked <= 0)
		return peeked < 0 ? -errno : 0;
	if (msg.msg_flags & MSG_CTRUNC)
		return -EBADMSG;
	do
		n = recv(peer->fd, bytes, (size_t)peeked, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

bool peer_is_reset(const struct peer *peer)
{
	struct pollfd pfd = {.fd = peer->fd};

	return peer->was_reset || (poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLERR));
}

int peer_send(struct peer *peer, const void *frame, int fd)
{
	struct pollfd pfd = {.fd = peer->fd, .events = POLLOUT};
	int r;

	/* A socket is writable when most of its buffer is free: a frame fits, whole. */
	if (poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLOUT))
		r = frame_send(peer->fd, frame, &fd, 0);
	else
		r = -EAGAIN;
	peer->was_reset |= r == -ECONNRESET;
	if (r == -EAGAIN && peer->kind == PEER_SERVER) {
		peer->wants_write = true;
		peer_watch(peer);
	}
	return r;
}

void peer_refuse(struct peer *peer, uint32_t result, const char *format, ...)
{
	struct frame_refused refused = {0};
	va_list args;

	frame_init(&refused, FRAME_REFUSED, 0);
	refused.result = result;
	va_start(args, format);
	vsnprintf(refused.text, sizeof(refused.text), format, args);
	va_end(args);
	peer_log(peer, "Refused client %d of user %u: %s", peer->cred.pid, peer->cred.uid,
		refused.text);
	/* Who does not get it finds the connection closed, which is an error as well. */
	(void)peer_send(peer, &refused, -EBADF);
	peer_close(peer);
}

/* The first byte of all tells what it is. */
static void on_stranger_readable(struct peer *peer)
{
	ssize_t n = 1;

	if (peer->in_size == 0)
		n = recv(peer->fd, peer->in.bytes, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		peer_close(peer);
	else if (peer->in.bytes[0] == 0)
		introduction_read(peer);
	else
		commander_read(peer);
}

static void on_server_readable(struct peer *peer)
{
	for (int i = 0; i < FRAME_BATCH && peer->kind == PEER_SERVER; i++) {
		int r = introduction_read_frame(peer);

		if (r == 0)
			return;
		if (r > 0 && peer->server)
			r = link_on_frame(peer->server, peer);
		peer->in_size = 0;
		if (r >= 0)
			continue;
		if (r != -ECONNRESET)
			peer_log(peer,
				"Server %d of user %u broke the protocol (%s): its connection is "
				"closed",
				peer->cred.pid, peer->cred.uid, strerror(-r));
		peer_close(peer);
	}
}

void peer_read_rest(struct peer *peer)
{
	on_server_readable(peer);
}

static void on_server_event(struct peer *peer, int events)
{
	if ((events & UV_WRITABLE) && peer->wants_write) {
		peer->wants_write = false;
		peer_watch(peer);
		if (peer->server)
			link_on_writable(peer->server);
	}
	if (events & UV_READABLE)
		on_server_readable(peer);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct peer *peer = poll->data;

	if (status < 0) {
		peer_close(peer);
		return;
	}
	switch (peer->kind) {
	case PEER_STRANGER:
		on_stranger_readable(peer);
		break;
	case PEER_COMMANDER:
		commander_on_event(peer, events);
		break;
	case PEER_CLIENT:
		/* Nothing but its hang-up is watched: it went away while it waited. */
		peer_close(peer);
		break;
	case PEER_SERVER:
		on_server_event(peer, events);
		break;
	case PEER_QUEUED:
	case PEER_HANDED_OVER:
	case PEER_CLOSED:
		break;
	}
}

void peer_watch(struct peer *peer)
{
	int events = 0;

	switch (peer->kind) {
	case PEER_STRANGER:
		events = UV_READABLE;
		break;
	case PEER_COMMANDER:
		events = commander_events(peer);
		break;
	case PEER_CLIENT:
		events = UV_DISCONNECT;
		break;
	case PEER_QUEUED:
		/* Of one that has sent all there is an end of file: no sign that it went away. */
	case PEER_HANDED_OVER:
		break;
	case PEER_SERVER:
		events = UV_READABLE | (peer->wants_write ? UV_WRITABLE : 0);
		break;
	case PEER_CLOSED:
		return;
	}
	if (events)
		uv_poll_start(&peer->poll, events, on_event);
	else
		uv_poll_stop(&peer->poll);
}

static void on_deadline(uv_timer_t *timer)
{
	struct peer *peer = timer->data;

	switch (peer->kind) {
	case PEER_STRANGER:
		peer_close(peer);
		break;
	case PEER_QUEUED:
		commander_on_queued_deadline(peer);
		break;
	case PEER_COMMANDER:
		commander_on_deadline(peer);
		break;
	case PEER_CLIENT:
		slot_on_client_deadline(peer);
		break;
	case PEER_HANDED_OVER:
	case PEER_SERVER:
	case PEER_CLOSED:
		break;
	}
}

void peer_set_deadline(struct peer *peer, uint64_t timeout_ms)
{
	if (timeout_ms == 0)
		uv_timer_stop(&peer->timer);
	else
		uv_timer_start(&peer->timer, on_deadline, timeout_ms, 0);
}

void peer_become(struct peer *peer, enum peer_kind kind)
{
	peer->kind = kind;
	peer_set_deadline(peer, 0);
	peer_watch(peer);
}

static int peer_new(struct daemon *daemon, int fd, struct peer **ret_peer)
{
	_cleanup_free_ struct peer *peer = calloc(1, sizeof(*peer));
	socklen_t size = sizeof(peer->cred);
	struct tenant *tenant;
	int r;

	if (!peer)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer->cred, &size) < 0)
		return -errno;
	tenant = tenant_get(daemon, peer->cred.uid);
	if (!tenant)
		return -EUSERS;
	r = uv_poll_init(&daemon->loop, &peer->poll, fd);
	if (r < 0)
		return r;
	uv_timer_init(&daemon->loop, &peer->timer);
	peer->n_handles = 2;
	peer->poll.data = peer->timer.data = peer;
	peer->daemon = daemon;
	peer->fd = fd;
	list_init(&peer->wait);
	join_tenant(peer, tenant);
	*ret_peer = TAKE_PTR(peer);
	return 0;
}

void peer_accept(struct daemon *daemon, int fd)
{
	struct peer *peer = NULL;
	struct tenant *tenant;
	int r;

	r = peer_new(daemon, fd, &peer);
	if (!peer) {
		daemon_log_stranger(daemon, "Cannot keep a connection: %s", strerror(-r));
		async_close(fd);
		return;
	}
	tenant = peer->tenant;
	peer_log(peer, "Accepting connection...");
	peer_become(peer, PEER_STRANGER);
	peer_set_deadline(peer, INTRODUCTION_MS);
	/* Most have spoken by now, and then are strangers no more. */
	on_stranger_readable(peer);
	admission_check(tenant);
}
