/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starting a server process. Loop thread.
 *
 * Invariant: a server gets three descriptors, a written environment and the
 * default signals; everything of ours is close-on-exec.
 */

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "process.h"
#include "spawn.h"

/* Where the shell would look if PATH were not set; integrators start daemons without one. */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#define SERVER_NAME "mps-server"

/* Whether DIRECTORY/mps-server can be run; then it is in `path'. */
static bool is_server_in(const char *directory, size_t length, char *path, size_t size)
{
	int n = snprintf(path, size, "%.*s/" SERVER_NAME, (int)length, directory);

	return n > 0 && (size_t)n < size && access(path, X_OK) == 0;
}

static int find_server(char *path, size_t size, struct reason *reason)
{
	const char *search = getenv("PATH");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *slash = NULL;

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
	}
	if (slash && is_server_in(self, (size_t)(slash - self), path, size))
		return 0;
	if (!search || !*search)
		search = DEFAULT_PATH;
	for (const char *part = search; *part;) {
		size_t length = strcspn(part, ":");

		if (*part == '/' && is_server_in(part, length, path, size))
			return 0;
		part += length;
		part += *part == ':';
	}
	return reason_set(reason, -ENOENT,
		SERVER_NAME " is neither beside %.200s nor in PATH: install it beside mps-control",
		slash ? self : "mps-control (/proc is not readable)");
}

/* Between fork and exec. Other threads only close descriptors (async_close.h). */
static _Noreturn void child_run(
	const char *path, char *const *argv, char *const *environment, int output)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
		dup2(output, STDERR_FILENO) < 0)
		_exit(127);
	if (null > STDERR_FILENO)
		close(null);
	execve(path, argv, environment);
	dprintf(STDERR_FILENO, "Cannot execute %s: %s\n", path, strerror(errno));
	_exit(127);
}

static void environment_freep(char ***environment)
{
	config_environment_free(*environment);
}

int spawn_server(const struct config *config, uid_t uid, const gid_t *gid, struct spawned *ret,
	struct reason *reason)
{
	_cleanup_(environment_freep) char **environment = config_environment(config);
	_cleanup_close_ int output = -EBADF, input = -EBADF;
	char path[PATH_MAX], uid_text[16], gid_text[16];
	char *argv[] = {path, "--uid", uid_text, gid ? "--gid" : NULL, gid_text, NULL};
	int pidfd, pair[2], r;
	pid_t pid;

	if (!environment)
		return reason_set(reason, -ENOMEM, "No memory to start " SERVER_NAME);
	r = find_server(path, sizeof(path), reason);
	if (r < 0)
		return r;
	snprintf(uid_text, sizeof(uid_text), "%u", uid);
	snprintf(gid_text, sizeof(gid_text), "%u", gid ? *gid : 0);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return reason_set(
			reason, -errno, "No pipe for " SERVER_NAME ": %s", strerror(errno));
	output = pair[0];
	input = pair[1];
	fcntl(output, F_SETFL, O_NONBLOCK);
	pid = fork();
	if (pid < 0)
		return reason_set(
			reason, -errno, "Cannot fork " SERVER_NAME ": %s", strerror(errno));
	if (pid == 0)
		child_run(path, argv, environment, input);
	pidfd = process_open(pid);
	if (pidfd < 0) {
		/* Without a descriptor nobody would notice its end, so it must not begin. */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return reason_set(
			reason, pidfd, "No descriptor for " SERVER_NAME ": %s", strerror(-pidfd));
	}
	*ret = (struct spawned){.pid = pid, .pidfd = pidfd, .output = TAKE_FD(output)};
	return 0;
}
