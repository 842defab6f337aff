/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections to the control socket. Loop thread.
 *
 * Invariant: this thread never closes a descriptor that a peer has passed,
 * since the peer controls how long the close takes. Bytes are read only after
 * a peek has shown that no descriptor comes with them; async_close() closes
 * connections, whose queues may hold descriptors.
 */

#include "conn.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "admission.h"
#include "async_close.h"
#include "bounds.h"
#include "daemon/text/line_buffer.h"
#include "daemon/text/process.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"
#include "daemon/state/tenant_log.h"

static void on_conn_closed(uv_handle_t *handle)
{
	struct conn *conn = handle->data;

	if (--conn->n_handles > 0)
		return;
	if (!conn->keeps_fd)
		async_close(conn->fd);
	closep(&conn->pidfd);
	free(conn->out);
	free(conn->retry);
	free(conn);
}

static void join_tenant(struct conn *conn, struct tenant *tenant)
{
	conn->tenant = tenant;
	list_add_tail(&tenant->conns, &conn->link);
	tenant->n_conns++;
	tenant->account->n_conns++;
	tenant->account->n_conns_of[conn->kind]++;
	if (!daemon_trusts(conn->daemon, tenant->uid))
		conn->daemon->n_guest_conns++;
}

static void leave_tenant(struct conn *conn)
{
	list_remove(&conn->link);
	conn->tenant->n_conns--;
	conn->tenant->account->n_conns--;
	conn->tenant->account->n_conns_of[conn->kind]--;
	if (!daemon_trusts(conn->daemon, conn->tenant->uid))
		conn->daemon->n_guest_conns--;
}

struct conn *account_find_oldest_conn(
	const struct account *account, bool (*is_wanted)(const struct conn *))
{
	struct conn *oldest = NULL;

	list_each (const struct tenant, tenant, &account->tenants, link_in_account)
		list_each (struct conn, conn, &tenant->conns, link)
			if (is_wanted(conn) && (!oldest || conn->number < oldest->number))
				oldest = conn;
	return oldest;
}

void conn_close(struct conn *conn)
{
	const struct conn_ops *ops = conn->ops;

	if (conn->kind == CONN_CLOSED)
		return;
	leave_tenant(conn);
	conn->kind = CONN_CLOSED;
	list_remove(&conn->wait);
	uv_close((uv_handle_t *)&conn->poll, on_conn_closed);
	uv_close((uv_handle_t *)&conn->timer, on_conn_closed);
	if (ops->on_close)
		ops->on_close(conn);
}

/* Whether it may come from a container whose root is not that of the machine. */
static bool is_of_container(const struct conn *conn)
{
	return conn->entry && conn->daemon->config.is_multiuser &&
	       !conn->daemon->config.trusts_container_root;
}

bool conn_is_trusted(const struct conn *conn)
{
	return daemon_trusts(conn->daemon, conn->cred.uid) && !is_of_container(conn);
}

bool conn_owns(const struct conn *conn, uid_t uid)
{
	return conn->cred.uid == uid && (uid != 0 || !is_of_container(conn));
}

static bool is_client_conn(const struct conn *conn)
{
	if (conn->kind == CONN_NEW)
		return conn->in_size >= sizeof(conn->in.head) && conn->in.head.zero == 0 &&
		       conn->in.head.type == FRAME_HELLO;
	return conn->kind == CONN_CLIENT || conn->kind == CONN_HANDED_OVER;
}

void conn_log(struct conn *conn, const char *format, ...)
{
	const struct log_subject about = {
		.server = conn->kind == CONN_SERVER ? conn->cred.pid : 0,
		.client = is_client_conn(conn) ? conn->cred.pid : 0,
		.has_uid = true,
		.uid = conn->cred.uid,
	};
	char text[LINE_MAX_SIZE];

	format_arguments(text, format);
	tenant_log(conn->tenant, &about, "%s", text);
}

ssize_t conn_recv(struct conn *conn, void *bytes, size_t size)
{
	struct iovec iov = {.iov_base = bytes, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t peeked, n;

	/* A peek leaves descriptors in the queue. */
	do
		peeked = recvmsg(conn->fd, &msg, MSG_PEEK | MSG_DONTWAIT);
	while (peeked < 0 && errno == EINTR);
	if (peeked <= 0)
		return peeked < 0 ? -errno : 0;
	if (msg.msg_flags & MSG_CTRUNC)
		return -EBADMSG;
	do
		n = recv(conn->fd, bytes, (size_t)peeked, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int conn_fill_frame(struct conn *conn, size_t wanted)
{
	while (conn->in_size < wanted) {
		ssize_t n = conn_recv(conn, conn->in.bytes + conn->in_size, wanted - conn->in_size);

		if (n == -EAGAIN)
			return 0;
		if (n < 0) {
			conn->was_reset = n == -ECONNRESET;
			return (int)n;
		}
		if (n == 0)
			return -ECONNRESET;
		conn->in_size += (size_t)n;
	}
	return 1;
}

int conn_read_frame(struct conn *conn)
{
	size_t size;
	int r = conn_fill_frame(conn, sizeof(struct frame_head));

	if (r <= 0)
		return r;
	size = frame_size(conn->in.head.type);
	if (conn->in.head.zero != 0 || size == 0 || conn->in.head.size != size)
		return -EBADMSG;
	return conn_fill_frame(conn, size);
}

bool conn_is_reset(const struct conn *conn)
{
	struct pollfd pfd = {.fd = conn->fd};

	return conn->was_reset || (poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLERR));
}

int conn_send(struct conn *conn, const void *frame, int fd)
{
	struct pollfd pfd = {.fd = conn->fd, .events = POLLOUT};
	int r;

	/* A socket is writable when most of its buffer is free: then a whole frame fits. */
	if (poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLOUT))
		r = frame_send(conn->fd, frame, &fd, 0);
	else
		r = -EAGAIN;
	conn->was_reset |= r == -ECONNRESET;
	if (r == -EAGAIN && conn->kind == CONN_SERVER) {
		conn->wants_write = true;
		conn_watch(conn);
	}
	return r;
}

bool conn_refuse(struct conn *conn, uint32_t result, const char *format, ...)
{
	struct frame_refused refused = {.head = frame_head(FRAME_REFUSED, 0), .result = result};

	usage_count(conn->daemon, conn->cred.uid, USAGE_REFUSAL);
	format_arguments(refused.text, format);
	conn_log(conn, "Refused client %d of user %u: %s", conn->cred.pid, conn->cred.uid,
		refused.text);
	/*
	 * A client that does not receive it finds the connection closed, which is an error as
	 * well.
	 */
	(void)conn_send(conn, &refused, -EBADF);
	conn_close(conn);
	return false;
}

void conn_read(struct conn *conn)
{
	conn->ops->on_event(conn, UV_READABLE);
}

static void on_conn_event(uv_poll_t *poll, int status, int events)
{
	struct conn *conn = poll->data;

	if (status < 0)
		conn_close(conn);
	else
		conn->ops->on_event(conn, events);
}

void conn_watch(struct conn *conn)
{
	int events = conn->ops->events ? conn->ops->events(conn) : 0;

	if (conn->kind == CONN_CLOSED)
		return;
	if (events)
		uv_poll_start(&conn->poll, events, on_conn_event);
	else
		uv_poll_stop(&conn->poll);
}

static void on_conn_deadline(uv_timer_t *timer)
{
	struct conn *conn = timer->data;

	if (conn->ops->on_deadline)
		conn->ops->on_deadline(conn);
}

void conn_set_deadline(struct conn *conn, uint64_t timeout_ms)
{
	if (timeout_ms == 0)
		uv_timer_stop(&conn->timer);
	else
		uv_timer_start(&conn->timer, on_conn_deadline, timeout_ms, 0);
}

void conn_become(struct conn *conn, enum conn_kind kind, const struct conn_ops *ops)
{
	conn->tenant->account->n_conns_of[conn->kind]--;
	conn->tenant->account->n_conns_of[kind]++;
	conn->kind = kind;
	conn->ops = ops;
	conn_set_deadline(conn, 0);
	conn_watch(conn);
}

static int conn_new(struct daemon *daemon, int fd, struct conn **ret_conn)
{
	_cleanup_free_ struct conn *conn = calloc(1, sizeof(*conn));
	socklen_t size = sizeof(conn->cred);
	struct tenant *tenant;
	int r;

	if (!conn)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &conn->cred, &size) < 0)
		return -errno;
	tenant = tenant_get(daemon, conn->cred.uid, fd);
	if (!tenant)
		return -EUSERS;
	r = uv_poll_init(&daemon->loop, &conn->poll, fd);
	if (r < 0)
		return r;
	uv_timer_init(&daemon->loop, &conn->timer);
	conn->n_handles = 2;
	conn->poll.data = conn->timer.data = conn;
	conn->daemon = daemon;
	conn->number = ++daemon->n_accepted;
	conn->fd = fd;
	/* Later, another process might have the PID. */
	conn->pidfd = daemon->config.groups_by_cgroup ? process_open_peer(fd) : -EBADF;
	list_init(&conn->wait);
	join_tenant(conn, tenant);
	*ret_conn = TAKE_PTR(conn);
	return 0;
}

void conn_accept(struct daemon *daemon, int fd, uint32_t entry)
{
	struct conn *conn = NULL;
	struct tenant *tenant;
	int r;

	r = conn_new(daemon, fd, &conn);
	if (!conn) {
		log_without_tenant(daemon, "Cannot set up a connection: %s", strerror(-r));
		async_close(fd);
		return;
	}
	conn->entry = entry;
	tenant = conn->tenant;
	conn_log(conn, "Accepting connection...");
	conn_become(conn, CONN_NEW, daemon->new_conn_ops);
	conn_set_deadline(conn, INTRODUCTION_MS);
	/* Most peers have sent something by now and get their kind here. */
	conn_read(conn);
	admission_check(tenant);
}

/* The peer is this process, or one that it starts. */
static int open_own(struct daemon *daemon, int fd, struct conn **ret_conn)
{
	int r = conn_new(daemon, fd, ret_conn);

	if (!*ret_conn) {
		closep(&fd);
		return r;
	}
	conn_become(*ret_conn, CONN_NEW, daemon->new_conn_ops);
	return 0;
}

int conn_open_for_pages(struct daemon *daemon, int fd)
{
	struct conn *conn = NULL;
	int r = open_own(daemon, fd, &conn);

	if (conn)
		conn->is_for_pages = true;
	return r;
}

int conn_open_for_file(struct daemon *daemon, int fd)
{
	struct conn *conn = NULL;
	int r = open_own(daemon, fd, &conn);

	if (conn)
		conn->is_for_file = true;
	return r;
}
