/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The connection of top to the daemon. One thread.
 *
 * Invariant: at most one request has no reply, and a reply has REPLY_MAX bytes at most.
 */

#include "top_conn.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "quote.h"
#include "trust.h"
#include "daemon/ask/control_socket.h"

/* Twice what the daemon keeps for a connection. */
#define REPLY_MAX ((size_t)64 << 20)

/* EOT ends the reply; in JSON it is escaped. */
static const char request[] = {"stats --json\n"
			       "\x04"
			       "\n"};

void top_conn_init(struct top_conn *conn, const char *path)
{
	*conn = (struct top_conn){.path = path, .fd = -EBADF};
}

void top_conn_close(struct top_conn *conn)
{
	closep(&conn->fd);
	free(conn->reply);
	conn->fd = -EBADF;
	conn->reply = NULL;
	conn->size = conn->room = 0;
	conn->is_waiting = false;
}

static int fail(struct top_conn *conn, int r, const char *what)
{
	snprintf(conn->why, sizeof(conn->why), "%.300s: %s", what, strerror(-r));
	top_conn_close(conn);
	return r;
}

static int open_conn(struct top_conn *conn, int wait_ms)
{
	const char *path = conn->path;
	int r = trust_path(path, conn->why, sizeof(conn->why));

	if (r < 0)
		return r;
	r = conn->fd = control_socket_connect(path, wait_ms);
	if (r < 0) {
		top_conn_close(conn);
		snprintf(conn->why, sizeof(conn->why),
			"no daemon at %.200s: %s: start it (mps-control -d), or set "
			"CUDA_MPS_PIPE_DIRECTORY",
			path, strerror(-r));
		return r;
	}
	r = trust_peer(conn->fd, path, conn->why, sizeof(conn->why));
	if (r < 0)
		top_conn_close(conn);
	return r;
}

int top_conn_ask(struct top_conn *conn, int wait_ms)
{
	ssize_t n;
	int r;

	if (conn->fd < 0) {
		r = open_conn(conn, wait_ms);
		if (r < 0)
			return r;
	}
	/* It fits into the buffer of a socket whose peer has read all earlier requests. */
	n = send(conn->fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
	if (n != (ssize_t)sizeof(request) - 1)
		return fail(conn, n < 0 ? -errno : -EPIPE, "the daemon");
	conn->size = 0;
	conn->is_waiting = true;
	return 0;
}

static int make_room(struct top_conn *conn)
{
	size_t room = MAX(2 * conn->room, (size_t)4096);
	char *reply;

	if (conn->size < conn->room)
		return 0;
	if (room > REPLY_MAX)
		return -EMSGSIZE;
	reply = realloc(conn->reply, room);
	if (!reply)
		return -ENOMEM;
	conn->reply = reply;
	conn->room = room;
	return 0;
}

/* A daemon that does not know the command says so in a line. */
static int read_reply(struct top_conn *conn, struct top_sample *ret_sample)
{
	int r = top_sample_read(ret_sample, conn->reply, conn->size);
	struct quoted quoted;

	conn->is_waiting = false;
	if (r == 0)
		return 1;
	if (r != -EBADMSG)
		return fail(conn, r, "the daemon's reply");
	conn->reply[strcspn(conn->reply, "\n")] = '\0';
	snprintf(conn->why, sizeof(conn->why), "the daemon replied: %s",
		quote(&quoted, conn->reply));
	top_conn_close(conn);
	return r;
}

int top_conn_read(struct top_conn *conn, struct top_sample *ret_sample)
{
	for (;;) {
		int r = make_room(conn);
		ssize_t n;

		if (r < 0)
			return fail(conn, r, "the daemon's reply");
		n = recv(conn->fd, conn->reply + conn->size, conn->room - conn->size, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0)
			return fail(conn, n < 0 ? -errno : -ECONNRESET, "the daemon has gone");
		conn->size += (size_t)n;
		/* The byte is the reply's last one. */
		if (conn->reply[conn->size - 1] != COMMAND_EOT)
			continue;
		conn->reply[--conn->size] = '\0';
		return conn->is_waiting ? read_reply(conn, ret_sample) : 0;
	}
}

void top_conn_give_up(struct top_conn *conn)
{
	top_conn_close(conn);
	snprintf(conn->why, sizeof(conn->why), "the daemon does not answer");
}
