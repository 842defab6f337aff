/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections to the daemon. Any thread.
 *
 * Invariant: connect() itself never blocks.
 */

#include "control_socket.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define STEP_MS 50

static int connect_once(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -EBADF;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int control_socket_connect(const char *path, int wait_ms)
{
	const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};

	for (int waited_ms = 0;; waited_ms += STEP_MS) {
		int fd = connect_once(path);

		if (fd != -EAGAIN || waited_ms >= wait_ms)
			return fd;
		nanosleep(&step, NULL);
	}
}
