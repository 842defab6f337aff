/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The protocol of the service manager. main() and loop thread.
 *
 * Invariant: variables that were meant for another process have no effect.
 */

#include "notify.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* SD_LISTEN_FDS_START, which is part of the protocol. */
#define FIRST_FD 3

/* The address is a path, or "@" and a name in the abstract namespace. */
static int notify_address(struct sockaddr_un *address, socklen_t *ret_size)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t length = path ? strlen(path) : 0;

	if (length == 0)
		return -ENOENT;
	if ((path[0] != '/' && path[0] != '@') || length >= sizeof(address->sun_path))
		return -EINVAL;
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(address->sun_path, path, length);
	if (path[0] == '@')
		address->sun_path[0] = '\0';
	*ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	return 0;
}

static int notify_connect_fd(int fd)
{
	struct sockaddr_un address;
	socklen_t size;
	int r = notify_address(&address, &size);

	if (r < 0)
		return r;
	return connect(fd, (const struct sockaddr *)&address, size) < 0 ? -errno : 0;
}

int notify_connect(void)
{
	_cleanup_close_ int fd = -EBADF;
	int r;

	if (!getenv("NOTIFY_SOCKET"))
		return -ENOENT;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = notify_connect_fd(fd);
	return r < 0 ? r : TAKE_FD(fd);
}

static int send_once(int fd, const char *state)
{
	return send(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int notify_send(int fd, const char *state)
{
	int r = send_once(fd, state);

	/* The service manager was replaced, and has a new socket of that name. */
	if (r == -ECONNREFUSED || r == -ENOTCONN)
		r = notify_connect_fd(fd) < 0 ? r : send_once(fd, state);
	return r;
}

/* The number in a variable; 0: not set, or not a positive number. */
static uint64_t number_of(const char *variable)
{
	const char *text = getenv(variable);
	char *end;
	uint64_t value;

	if (!text || *text < '0' || *text > '9')
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' ? value : 0;
}

uint64_t notify_watchdog_us(void)
{
	if (getenv("WATCHDOG_PID") && number_of("WATCHDOG_PID") != (uint64_t)getpid())
		return 0;
	return number_of("WATCHDOG_USEC");
}

static int socket_option(int fd, int option)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -errno : value;
}

int notify_take_listener(void)
{
	uint64_t n = number_of("LISTEN_PID") == (uint64_t)getpid() ? number_of("LISTEN_FDS") : 0;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (n == 0)
		return -ENOENT;
	if (n > 1)
		return -E2BIG;
	if (socket_option(FIRST_FD, SO_DOMAIN) != AF_UNIX ||
		socket_option(FIRST_FD, SO_TYPE) != SOCK_STREAM ||
		socket_option(FIRST_FD, SO_ACCEPTCONN) != 1)
		return -EPROTOTYPE;
	if (fcntl(FIRST_FD, F_SETFL, O_NONBLOCK) < 0 || fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return FIRST_FD;
}
