/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts server processes. Loop thread.
 *
 * Invariant: a server gets three descriptors, an explicit environment, the
 * default signals and the nice value of the daemon's start; all descriptors of
 * the daemon are close-on-exec.
 */

#include "spawn.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "build_id.h"
#include "daemon/text/directory.h"
#include "daemon/text/process.h"

/* The shell's search path if PATH is not set; integrators start daemons without one. */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#define SERVER_NAME "mps-server"

/* The vendor's names, for tools that look for processes of these names. */
#define VENDOR_CONTROL_NAME "nvidia-cuda-mps-control"
#define VENDOR_SERVER_NAME "nvidia-cuda-mps-server"

/* The directories of this program and of the link by which it was started; "" if not known. */
static struct {
	char own[PATH_MAX], link[PATH_MAX];
} folders;
static bool has_vendor_name;

/*
 * With nice value 0, beside 1 000 clients and hostile users on two CPUs, the loop ran for 8 % of
 * the time and waited for a CPU for the rest.
 */
#define RAISED_NICE (-10)

static int started_with_nice;

/* Removes the file name; a path without a slash becomes "". */
static void strip_file_name(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
	else
		*path = '\0';
}

void spawn_init(void)
{
	/* The path that execve() got: the shell has searched PATH. */
	const char *path = (const char *)getauxval(AT_EXECFN);
	char folder[PATH_MAX];

	started_with_nice = getpriority(PRIO_PROCESS, 0);
	if (started_with_nice > RAISED_NICE)
		setpriority(PRIO_PROCESS, 0, RAISED_NICE);
	directory_own(folders.own);
	has_vendor_name = strcmp(program_invocation_short_name, VENDOR_CONTROL_NAME) == 0;
	if (!path || snprintf(folder, sizeof(folder), "%s%s", *path == '/' ? "" : "./", path) >=
			     (int)sizeof(folder))
		return;
	strip_file_name(folder);
	if (!realpath(*folder ? folder : "/", folders.link))
		*folders.link = '\0';
}

/* Whether FOLDER/NAME is executable; then it is in `path'. */
static bool is_executable(
	const char *folder, size_t length, const char *name, char *path, size_t size)
{
	int n = snprintf(path, size, "%.*s/%s", (int)length, folder, name);

	return n > 0 && (size_t)n < size && access(path, X_OK) == 0;
}

/*
 * The vendor's name means our server only if the daemon's vendor name in that
 * directory is this program: a copy of both programs.
 */
static bool is_own_folder(const char *folder)
{
	char path[PATH_MAX];
	struct stat own, named;

	return is_executable(folder, strlen(folder), VENDOR_CONTROL_NAME, path, sizeof(path)) &&
	       stat(path, &named) == 0 && stat("/proc/self/exe", &own) == 0 &&
	       named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

static bool is_server_beside(const char *folder, char *path, size_t size)
{
	if (!*folder)
		return false;
	return is_executable(folder, strlen(folder), SERVER_NAME, path, size) ||
	       (is_own_folder(folder) &&
		       is_executable(folder, strlen(folder), VENDOR_SERVER_NAME, path, size));
}

static int find_server_program(char *path, size_t size, struct error_message *error)
{
	const char *search = getenv("PATH");

	if (is_server_beside(folders.own, path, size) || is_server_beside(folders.link, path, size))
		return 0;
	if (!search || !*search)
		search = DEFAULT_PATH;
	for (const char *part = search; *part;) {
		size_t length = strcspn(part, ":");

		if (*part == '/' && is_executable(part, length, SERVER_NAME, path, size))
			return 0;
		part += length;
		part += *part == ':';
	}
	return error_message_set(error, -ENOENT,
		SERVER_NAME " is neither in %.200s nor in PATH: install it beside mps-control",
		*folders.own ? folders.own : "the folder of mps-control (/proc is not readable)");
}

uint64_t spawn_server_build(void)
{
	struct error_message error;
	char path[PATH_MAX];

	return find_server_program(path, sizeof(path), &error) < 0 ? 0 : build_id_of(path);
}

/* The server's name for ps: its path, but with the vendor's name if the daemon has one. */
static void choose_server_name(const char *path, char *name, size_t size)
{
	const char *slash = strrchr(path, '/');

	if (has_vendor_name)
		snprintf(name, size, "%.*s/" VENDOR_SERVER_NAME, (int)(slash - path), path);
	else
		snprintf(name, size, "%s", path);
}

/*
 * Between fork and exec. Another thread may have held a lock at the fork (async_close.h, reload.h),
 * so nothing here allocates.
 */
static _Noreturn void run_child(
	const char *path, char *const *argv, char *const *environment, int output)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpriority(PRIO_PROCESS, 0, started_with_nice);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
		dup2(output, STDERR_FILENO) < 0)
		_exit(127);
	if (null > STDERR_FILENO)
		close(null);
	execve(path, argv, environment);
	dprintf(STDERR_FILENO, "Cannot execute %s: %s\n", path, strerror(errno));
	_exit(127);
}

/*
 * Signals stay blocked until the child has the default handlers: the loop's
 * handler would write into the pipe that the child shares with the daemon, and
 * the daemon would take a SIGTERM for a server for its own.
 */
static pid_t fork_signals_blocked(void)
{
	sigset_t all, before;
	int error;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	error = errno;
	if (pid != 0)
		sigprocmask(SIG_SETMASK, &before, NULL);
	return pid < 0 ? -error : pid;
}

static void environment_freep(char ***environment)
{
	config_environment_free(*environment);
}

/* Runs mps-server with these arguments; sets argv[0]. `devices': its GPUs; NULL: the daemon's. */
static int spawn_process(const struct config *config, char **argv, const char *devices,
	struct spawned *ret, struct error_message *error)
{
	_cleanup_(environment_freep) char **environment = config_environment(config, devices);
	_cleanup_close_ int output = -EBADF, input = -EBADF;
	/* Static, as the caller keeps its argv. */
	static char name[PATH_MAX + 32];
	char path[PATH_MAX];
	int pidfd, pair[2], r;
	pid_t pid;

	if (!environment)
		return error_message_set(error, -ENOMEM, "Out of memory for starting " SERVER_NAME);
	r = find_server_program(path, sizeof(path), error);
	if (r < 0)
		return r;
	choose_server_name(path, name, sizeof(name));
	argv[0] = name;
	if (pipe2(pair, O_CLOEXEC) < 0)
		return error_message_set(error, -errno,
			"Cannot create a pipe for " SERVER_NAME ": %s", strerror(errno));
	output = pair[0];
	input = pair[1];
	fcntl(output, F_SETFL, O_NONBLOCK);
	pid = fork_signals_blocked();
	if (pid < 0)
		return error_message_set(
			error, pid, "Cannot fork " SERVER_NAME ": %s", strerror(-pid));
	if (pid == 0)
		run_child(path, argv, environment, input);
	pidfd = process_open(pid);
	if (pidfd < 0) {
		/* Without a pidfd the daemon would not notice its end, so it must not start. */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return error_message_set(error, pidfd, "Cannot open a pidfd of " SERVER_NAME ": %s",
			strerror(-pidfd));
	}
	*ret = (struct spawned){.pid = pid, .pidfd = pidfd, .output = TAKE_FD(output)};
	return 0;
}

int spawn_probe(const struct config *config, struct spawned *ret, struct error_message *error)
{
	char *argv[] = {NULL, "--devices", NULL};

	return spawn_process(config, argv, NULL, ret, error);
}

int spawn_server(const struct config *config, uid_t uid, const gid_t *gid, const char *devices,
	bool is_successor, struct spawned *ret, struct error_message *error)
{
	char uid_text[16], gid_text[16];
	char *argv[8] = {NULL, "--uid", uid_text};
	size_t n = 3;

	snprintf(uid_text, sizeof(uid_text), "%u", uid);
	if (gid) {
		snprintf(gid_text, sizeof(gid_text), "%u", *gid);
		argv[n++] = "--gid";
		argv[n++] = gid_text;
	}
	if (config->is_multiuser && uid == config->server_uid)
		argv[n++] = "--multiuser";
	if (is_successor)
		argv[n++] = "--successor";
	return spawn_process(config, argv, devices, ret, error);
}
