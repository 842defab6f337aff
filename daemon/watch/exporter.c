/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program that answers HTTP. Loop thread.
 *
 * Invariant: the daemon itself reads no byte of an HTTP peer; the program's connection has no
 * right but that to the page.
 */

#include "exporter.h"

#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/text/directory.h"
#include "daemon/ask/exporter_start.h"
#include "daemon/config/metrics_address.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"

#define USER "mps"
#define PASSWD_PATH "/etc/passwd"

/* The pause before the program is started again. */
#define RESTART_MS 1000

/* The loop waits so long for a program that only loads its libraries. */
#define CHECK_MS 1000

static const char *const program_names[] = {"mps-exporter", NULL};

struct exporter {
	struct daemon *daemon;
	char address[METRICS_LISTEN_MAX];
	int listener; /* the program has it, too */
	uv_process_t process;
	uv_timer_t restart;
	unsigned n_handles;
	bool is_closing;
};

/* "127.0.0.1:" if the address is only a port. */
static const char *host_of(const char *address)
{
	return strchr(address, ':') ? "" : METRICS_HOST_DEFAULT ":";
}

static void on_closed(uv_handle_t *handle)
{
	struct exporter *exporter = handle->data;

	if (--exporter->n_handles == 0)
		free(exporter);
}

static int start(struct exporter *exporter);

static void on_restart(uv_timer_t *timer)
{
	struct exporter *exporter = timer->data;
	int r = start(exporter);

	if (r == 0)
		return;
	log_control(&exporter->daemon->logs, "Cannot start mps-exporter: %s", strerror(-r));
	uv_timer_start(timer, on_restart, RESTART_MS, 0);
}

static void on_process_closed(uv_handle_t *handle)
{
	struct exporter *exporter = handle->data;

	if (!exporter->is_closing)
		uv_timer_start(&exporter->restart, on_restart, RESTART_MS, 0);
	on_closed(handle);
}

static void on_exit_of_program(uv_process_t *process, int64_t status, int number)
{
	struct exporter *exporter = process->data;
	struct daemon *daemon = exporter->daemon;

	uv_close((uv_handle_t *)process, on_process_closed);
	if (exporter->is_closing)
		return;
	if (number != 0)
		log_control(&daemon->logs,
			"mps-exporter %d was ended by signal %d: starting it again", process->pid,
			number);
	else
		log_control(&daemon->logs,
			"mps-exporter %d exited with status %d: starting it again", process->pid,
			(int)status);
}

/* ---- the start */

/* The file is read here, as the name service may take its time. */
static bool find_user(uid_t *ret_uid, gid_t *ret_gid)
{
	_cleanup_fclose_ FILE *file = fopen(PASSWD_PATH, "re");
	const struct passwd *entry;

	while (file && (entry = fgetpwent(file))) {
		if (strcmp(entry->pw_name, USER) != 0)
			continue;
		*ret_uid = entry->pw_uid;
		*ret_gid = entry->pw_gid;
		return true;
	}
	return false;
}

static int spawn(struct exporter *exporter, int connection)
{
	char path[PATH_MAX], uid_text[16], gid_text[16], subuid[PATH_MAX];
	char *arguments[] = {path, subuid, NULL, NULL, NULL};
	uv_stdio_container_t files[] = {
		{.flags = UV_IGNORE},
		{.flags = UV_IGNORE},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
		[EXPORTER_LISTENER_FD] = {.flags = UV_INHERIT_FD, .data.fd = exporter->listener},
		[EXPORTER_DAEMON_FD] = {.flags = UV_INHERIT_FD, .data.fd = connection},
	};
	const uv_process_options_t options = {
		.exit_cb = on_exit_of_program,
		.file = path,
		.args = arguments,
		.stdio = files,
		.stdio_count = ARRAY_SIZE(files),
	};
	uid_t uid;
	gid_t gid;

	directory_find_beside(program_names, path);
	snprintf(subuid, sizeof(subuid), "%s", config_subuid_path());
	if (geteuid() == 0 && find_user(&uid, &gid)) {
		snprintf(uid_text, sizeof(uid_text), "%u", uid);
		snprintf(gid_text, sizeof(gid_text), "%u", gid);
		arguments[2] = uid_text;
		arguments[3] = gid_text;
	}
	return uv_spawn(&exporter->daemon->loop, &exporter->process, &options);
}

/* The exit status of the program, which is killed if it does not end in time. */
static int wait_for_end(pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int status = 0;

	for (unsigned ms = 0; ms < CHECK_MS; ms++) {
		if (waitpid(pid, &status, WNOHANG) != 0)
			return status;
		nanosleep(&pause, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return status;
}

/* Without arguments the program ends at once, unless the loader does not find its library. */
int exporter_check(struct error_message *error)
{
	char path[PATH_MAX], *arguments[] = {path, NULL}, *none[] = {NULL};
	int status, r;
	pid_t pid;

	directory_find_beside(program_names, path);
	r = -posix_spawn(&pid, path, NULL, NULL, arguments, none);
	if (r < 0)
		return error_message_set(error, r,
			"mps-exporter cannot start: %s: install it beside mps-control",
			strerror(-r));
	status = wait_for_end(pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXPORTER_NO_LIBRARY)
		return error_message_set(
			error, -ELIBACC, "libmicrohttpd.so.12 is missing: install libmicrohttpd12");
	return 0;
}

static int start(struct exporter *exporter)
{
	_cleanup_close_ int connection = -EBADF;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	connection = pair[1];
	r = conn_open_for_pages(exporter->daemon, pair[0]);
	if (r < 0)
		return r;
	exporter->process.data = exporter;
	exporter->n_handles++;
	r = spawn(exporter, connection);
	/* Also then libuv has a handle. */
	if (r < 0)
		uv_close((uv_handle_t *)&exporter->process, on_process_closed);
	return r;
}

bool exporter_has_pid(const struct daemon *daemon, pid_t pid)
{
	return daemon->exporter && daemon->exporter->process.pid == pid;
}

/* ---- the address */

void exporter_close(struct daemon *daemon)
{
	struct exporter *exporter = daemon->exporter;

	if (!exporter)
		return;
	daemon->exporter = NULL;
	exporter->is_closing = true;
	/* The program has the socket for a moment longer, but no peer can connect. */
	shutdown(exporter->listener, SHUT_RDWR);
	closep(&exporter->listener);
	uv_close((uv_handle_t *)&exporter->restart, on_closed);
	if (uv_is_active((uv_handle_t *)&exporter->process))
		uv_process_kill(&exporter->process, SIGKILL);
}

/* Takes `listener', on failure too. */
static int exporter_open(struct daemon *daemon, const char *address, int listener)
{
	struct exporter *exporter = calloc(1, sizeof(*exporter));
	int r;

	if (!exporter) {
		closep(&listener);
		return -ENOMEM;
	}
	exporter->daemon = daemon;
	exporter->listener = listener;
	snprintf(exporter->address, sizeof(exporter->address), "%s", address);
	uv_timer_init(&daemon->loop, &exporter->restart);
	exporter->restart.data = exporter;
	exporter->n_handles = 1;
	daemon->exporter = exporter;
	r = start(exporter);
	if (r < 0)
		exporter_close(daemon);
	return r;
}

int exporter_listen(struct daemon *daemon, const char *address, struct error_message *error)
{
	const char *host = host_of(address);
	struct metrics_address parsed;
	struct error_message why;
	int r;

	if (daemon->exporter && strcmp(daemon->exporter->address, address) == 0)
		return 0;
	exporter_close(daemon);
	if (!*address)
		return 0;
	r = exporter_check(&why);
	if (r < 0)
		return error_message_set(error, r,
			"Cannot listen on %s%s for the metrics: %s, then reload", host, address,
			why.text);
	r = metrics_address_parse(address, &parsed) ? metrics_address_listen(&parsed) : -EINVAL;
	if (r < 0)
		return error_message_set(error, r,
			"Cannot listen on %s%s for the metrics: %s: set metrics_listen to another "
			"address, or reload when this one is free",
			host, address, strerror(-r));
	r = exporter_open(daemon, address, r);
	if (r < 0)
		return error_message_set(error, r,
			"Cannot listen on %s%s for the metrics: mps-exporter cannot start: %s",
			host, address, strerror(-r));
	log_control(&daemon->logs, "The metrics can be read at http://%s%s/metrics", host, address);
	return 0;
}
