/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Listening sockets. Loop thread.
 *
 * Invariant: accept() never blocks, and without descriptors the loop does not spin.
 */

#include "acceptor.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "bounds.h"
#include "conn.h"
#include "daemon/state/daemon.h"

/* The name of the socket until it listens. */
#define TEMPORARY_NAME ".socket"

/* Connections accepted before other events are handled. */
#define ACCEPT_BATCH 32

/* The pause after running out of descriptors. */
#define PAUSE_MS 100

/*
 * From Linux 6.16 on the kernel refuses descriptors that a peer sends to the
 * connections of this socket; a server allows them again for its clients.
 */
void acceptor_refuse_descriptors(int fd)
{
	const int off = 0;

	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

/* The temporary name has as many bytes as the final one, so that it fits into an address too. */
static struct sockaddr_un temporary_address(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	_Static_assert(sizeof(address.sun_path) == SOCKET_PATH_MAX + 1, "SOCKET_PATH_MAX");
	_Static_assert(sizeof(TEMPORARY_NAME) == sizeof("control"), "fits where the other does");
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	memcpy(strrchr(address.sun_path, '/') + 1, TEMPORARY_NAME, sizeof(TEMPORARY_NAME));
	return address;
}

/*
 * The socket is renamed once it listens, which replaces the socket of a dead
 * daemon in one step: a client that connects meets one or the other. A client
 * that found no socket would run without the service.
 */
int acceptor_bind(const char *path, struct error_message *error)
{
	struct sockaddr_un address = temporary_address(path);
	_cleanup_close_ int fd = -EBADF;
	mode_t mask;
	int r;

	unlink(address.sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_message_set(
			error, -errno, "Cannot create a socket: %s", strerror(errno));
	/* Mode 0666 from its creation: the daemon checks the peer, not the file. */
	mask = umask(0111);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	umask(mask);
	if (r < 0)
		return error_message_set(
			error, r, "Cannot create the socket %s: %s", path, strerror(-r));
	if (listen(fd, SOMAXCONN) < 0 || rename(address.sun_path, path) < 0) {
		r = error_message_set(
			error, -errno, "Cannot listen on %s: %s", path, strerror(errno));
		unlink(address.sun_path);
		return r;
	}
	return TAKE_FD(fd);
}

static void on_connection(uv_poll_t *poll, int status, int events);

static void on_pause_timer(uv_timer_t *timer)
{
	struct acceptor *acceptor = timer->data;

	uv_poll_start(&acceptor->poll, UV_READABLE, on_connection);
}

static void on_connection(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	struct acceptor *acceptor = poll->data;

	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(acceptor->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		int r = fd < 0 ? -errno : 0;

		if (r == 0) {
			conn_accept(acceptor->daemon, fd, acceptor->entry);
			continue;
		}
		if (r == -EAGAIN)
			return;
		if (r == -EINTR || r == -ECONNABORTED)
			continue;
		log_control(
			&acceptor->daemon->logs, "Cannot accept a connection: %s", strerror(-r));
		uv_poll_stop(poll);
		uv_timer_start(&acceptor->pause, on_pause_timer, PAUSE_MS, 0);
		return;
	}
}

int acceptor_start(struct acceptor *acceptor, struct daemon *daemon, int fd, uint32_t entry)
{
	int r = uv_poll_init(&daemon->loop, &acceptor->poll, fd);

	if (r < 0)
		return r;
	uv_timer_init(&daemon->loop, &acceptor->pause);
	acceptor->daemon = daemon;
	acceptor->fd = fd;
	acceptor->entry = entry;
	acceptor->poll.data = acceptor->pause.data = acceptor;
	return uv_poll_start(&acceptor->poll, UV_READABLE, on_connection);
}

void acceptor_stop(struct acceptor *acceptor, uv_close_cb on_closed)
{
	/* The loop closes them in this order. */
	uv_close((uv_handle_t *)&acceptor->poll, NULL);
	uv_close((uv_handle_t *)&acceptor->pause, on_closed);
}
