/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The control socket, its lock and its PID file. Loop thread; opened in
 * main().
 *
 * Invariant: files in the directory are created and removed only under the
 * lock.
 */

#include "listener.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/text/directory.h"
#include "daemon/ask/control_socket.h"
#include "daemon/state/daemon.h"

#define LOCK_FILE "control_lock"
#define PID_FILE "nvidia-cuda-mps-control.pid"

/*
 * How long to wait for a previous daemon to exit; and after its exit, for its
 * children to become servers.
 */
#define LOCK_MS 300
#define LOCK_CHILDREN_MS 10000

/* Whether the process whose PID the previous daemon wrote is gone. */
static bool last_daemon_is_gone(int directory)
{
	_cleanup_close_ int fd =
		openat(directory, PID_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[16] = "";
	long pid;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return false;
	pid = strtol(text, NULL, 10);
	return pid > 0 && pid <= INT_MAX && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/*
 * A killed daemon holds the lock until its last thread has exited and each
 * child that it had started has become a server, which closes the lock.
 */
static int lock_with_timeout(int directory, int fd)
{
	const struct timespec step = {.tv_nsec = 10000000L};
	int r;

	for (int waited_ms = 0; (r = flock(fd, LOCK_EX | LOCK_NB)) < 0; waited_ms += 10) {
		if (errno != EWOULDBLOCK)
			break;
		if (waited_ms >= LOCK_MS &&
			(waited_ms >= LOCK_CHILDREN_MS || !last_daemon_is_gone(directory))) {
			errno = EWOULDBLOCK;
			break;
		}
		nanosleep(&step, NULL);
	}
	return r;
}

/* A user's daemon beside that of root, which alone can open the lock. */
static int refuse_lock(const struct config *config, int r, struct error_message *error)
{
	_cleanup_close_ int sock = control_socket_connect(config->socket_path, 0);

	if (r == -EACCES && sock >= 0)
		return error_message_set(error, r,
			"A daemon of root already serves all users at %s: mps-run --check says "
			"whether your programs can be its clients. For a daemon of your own, set "
			"CUDA_MPS_PIPE_DIRECTORY to a directory of yours, for the daemon and for "
			"your programs",
			config->pipe_directory);
	return error_message_set(error, r,
		"Cannot open %s/" LOCK_FILE ": %s: remove it or set CUDA_MPS_PIPE_DIRECTORY "
		"to a directory that UID %u can write",
		config->pipe_directory, strerror(-r), config->uid);
}

static int acquire_lock(
	struct listener *listener, const struct config *config, struct error_message *error)
{
	/* Readable by the owner only, since flock() needs no more than an open file. */
	int fd = openat(listener->directory, LOCK_FILE,
		O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd < 0)
		return refuse_lock(config, -errno, error);
	listener->lock = fd;
	listener->is_locked = lock_with_timeout(listener->directory, fd) == 0;
	if (listener->is_locked)
		return 0;
	if (errno == EWOULDBLOCK)
		return LISTENER_TAKEN;
	return error_message_set(error, -errno, "Cannot lock %s/" LOCK_FILE ": %s",
		config->pipe_directory, strerror(errno));
}

static int write_pid_file(
	const struct listener *listener, const struct config *config, struct error_message *error)
{
	_cleanup_close_ int fd = -EBADF;
	char text[16];
	int n;

	unlinkat(listener->directory, PID_FILE, 0);
	fd = openat(listener->directory, PID_FILE,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	n = snprintf(text, sizeof(text), "%d\n", getpid());
	if (fd >= 0 && write(fd, text, (size_t)n) == n)
		return 0;
	return error_message_set(error, errno ? -errno : -EIO, "Cannot write %s/" PID_FILE ": %s",
		config->pipe_directory, strerror(errno));
}

/*
 * The lock is held, so a listener on this socket does not use it, and a socket
 * without a listener is of a dead daemon.
 */
static int check_socket(const struct config *config, struct error_message *error)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	if (lstat(config->socket_path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return error_message_set(error, -EEXIST,
			"%s exists but is not a socket: remove it, or set CUDA_MPS_PIPE_DIRECTORY "
			"to another directory",
			config->socket_path);
	fd = control_socket_connect(config->socket_path, 0);
	if (fd != -ECONNREFUSED)
		return error_message_set(error, -EADDRINUSE,
			"Another program listens on %s. If it is systemd, systemctl start "
			"mps-control starts the daemon. If it is NVIDIA's own control daemon, stop "
			"that (echo quit | nvidia-cuda-mps-control). Or set "
			"CUDA_MPS_PIPE_DIRECTORY to another directory",
			config->socket_path);
	return 0;
}

static int bind_socket(
	struct listener *listener, const struct config *config, struct error_message *error)
{
	int r = check_socket(config, error);

	if (r == 0)
		r = listener->fd = acceptor_bind(config->socket_path, error);
	listener->is_bound = r >= 0;
	return MIN(r, 0);
}

/* Whether two paths name the same file. */
static bool is_same_file(const char *one, const char *other)
{
	struct stat a, b;

	return strcmp(one, other) == 0 || (lstat(one, &a) == 0 && lstat(other, &b) == 0 &&
						  a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* In another directory clients would not find the socket, or would not find the lock's owner. */
static int check_passed_socket(
	const struct listener *listener, const struct config *config, struct error_message *error)
{
	struct sockaddr_un address = {0};
	socklen_t size = sizeof(address) - 1; /* a name of the full size has no NUL */

	if (getsockname(listener->fd, (struct sockaddr *)&address, &size) < 0)
		return error_message_set(error, -errno,
			"Cannot use the socket that the service manager passed: %s",
			strerror(errno));
	if (is_same_file(address.sun_path, config->socket_path))
		return 0;
	return error_message_set(error, -EINVAL,
		"The service manager listens on \"%s\", but the daemon's socket is %s: set "
		"ListenStream=%s in the unit mps-control.socket (systemctl edit)",
		address.sun_path, config->socket_path, config->socket_path);
}

/* Locks the directory, if it can be used. */
static int lock_directory(
	struct listener *listener, const struct config *config, struct error_message *error)
{
	int r;

	listener->directory =
		directory_open(config->pipe_directory, "CUDA_MPS_PIPE_DIRECTORY", error);
	if (listener->directory < 0)
		return listener->directory;
	r = directory_check_private(
		listener->directory, config->pipe_directory, "CUDA_MPS_PIPE_DIRECTORY", error);
	if (r < 0)
		return r;
	return acquire_lock(listener, config, error);
}

int listener_check(const struct config *config, struct error_message *error)
{
	struct listener listener = {.directory = -EBADF, .lock = -EBADF, .fd = -EBADF};
	int r = lock_directory(&listener, config, error);

	if (r == 0)
		r = check_socket(config, error);
	listener_close(&listener);
	return r;
}

int listener_open(
	struct listener *listener, const struct config *config, int fd, struct error_message *error)
{
	int r;

	*listener = (struct listener){.directory = -EBADF, .lock = -EBADF, .fd = fd};
	r = lock_directory(listener, config, error);
	if (r != 0)
		return r;
	r = fd < 0 ? bind_socket(listener, config, error)
		   : check_passed_socket(listener, config, error);
	if (r < 0)
		return r;
	acceptor_refuse_descriptors(listener->fd);
	return write_pid_file(listener, config, error);
}

int listener_start(struct daemon *daemon)
{
	struct listener *listener = daemon->listener;

	return acceptor_start(&listener->acceptor, daemon, listener->fd, 0);
}

void listener_remove_files(const struct listener *listener, const struct config *config)
{
	if (!listener->is_locked)
		return;
	if (listener->is_bound)
		unlink(config->socket_path);
	unlinkat(listener->directory, PID_FILE, 0);
}

void listener_stop(struct daemon *daemon)
{
	struct listener *listener = daemon->listener;

	acceptor_stop(&listener->acceptor, NULL);
	listener_remove_files(listener, &daemon->config);
}

void listener_close(struct listener *listener)
{
	closep(&listener->fd);
	closep(&listener->directory);
	closep(&listener->lock);
	listener->fd = listener->directory = listener->lock = -EBADF;
}
