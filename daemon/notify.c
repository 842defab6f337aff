/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The service manager. main() and loop thread.
 *
 * Invariant: libsystemd is loaded only if the service manager's variables are
 * set.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "notify.h"

/* SD_LISTEN_FDS_START, which is part of the protocol. */
#define FIRST_FD 3

static void *find_systemd_function(const char *name)
{
	void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);

	return library ? dlsym(library, name) : NULL;
}

void notify_state(const char *state)
{
	int (*sd_notify)(int unset_environment, const char *state);

	if (!getenv("NOTIFY_SOCKET"))
		return;
	sd_notify = (__typeof__(sd_notify))find_systemd_function("sd_notify");
	if (sd_notify)
		sd_notify(0, state);
}

static int socket_option(int fd, int option)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -errno : value;
}

int notify_take_listener(void)
{
	int (*sd_listen_fds)(int unset_environment);
	int n;

	if (!getenv("LISTEN_FDS"))
		return -ENOENT;
	sd_listen_fds = (__typeof__(sd_listen_fds))find_systemd_function("sd_listen_fds");
	if (!sd_listen_fds)
		return -ENOSYS;
	n = sd_listen_fds(1);
	if (n == 0)
		return -ENOENT;
	if (n < 0)
		return n;
	if (n > 1)
		return -E2BIG;
	if (socket_option(FIRST_FD, SO_DOMAIN) != AF_UNIX ||
		socket_option(FIRST_FD, SO_TYPE) != SOCK_STREAM ||
		socket_option(FIRST_FD, SO_ACCEPTCONN) != 1)
		return -EPROTOTYPE;
	fcntl(FIRST_FD, F_SETFL, O_NONBLOCK);
	return FIRST_FD;
}
