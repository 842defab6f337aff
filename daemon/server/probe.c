/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The probe for GPUs. Loop thread.
 *
 * Invariant: while `daemon->probe' is set, its process runs and has a
 * deadline; the connections that wait for it are resumed at its end.
 */

#include "probe.h"

#include <sys/wait.h>

#include "spawn.h"
#include "turns.h"
#include "daemon/text/line_buffer.h"
#include "daemon/text/process.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"

/* cuInit() takes some seconds with eight GPUs that were asleep. */
#define PROBE_MS 30000
#define KILL_MS 2000

/* How long commands do not start a new probe after a failure. */
#define FAILURE_MS 5000

/* The least time between two starts: servers cannot make the daemon probe all the time. */
#define AGAIN_MS 3000

struct probe {
	struct daemon *daemon;
	pid_t pid;
	int pidfd, output;
	uv_poll_t exit_poll, output_poll;
	uv_timer_t timer;
	unsigned n_handles;
	bool is_killed;
	struct list waiters; /* waiting connections */
	struct devices found;
	struct line_buffer line_buffer;
	char last_line[160];
	size_t in_size;
	union {
		struct frame_head head;
		struct frame_device device;
		uint8_t bytes[sizeof(struct frame_device)];
	} in;
};

static void on_probe_closed(uv_handle_t *handle)
{
	struct probe *probe = handle->data;

	if (--probe->n_handles > 0)
		return;
	closep(&probe->pidfd);
	closep(&probe->output);
	devices_fini(&probe->found);
	free(probe);
}

/* The probe bounds the wait. */
static const struct pending pending_probe = {0};

static void probe_resume_waiters(struct daemon *daemon, struct probe *probe)
{
	struct error_message error;

	list_each_safe (struct conn, conn, &probe->waiters, wait) {
		if (daemon->is_quitting) {
			list_remove(&conn->wait);
			daemon_say_quitting(daemon, &error);
			pending_fail(conn, "%s", error.text);
			pending_end(conn);
		} else {
			pending_rerun(conn);
		}
	}
}

static void probe_note_failure(struct daemon *daemon, const struct probe *probe)
{
	error_message_set(&daemon->probe_failure, 0, "%s",
		probe->last_line[0] ? probe->last_line : "no GPU was found");
	daemon->probe_failed_ms = uv_now(&daemon->loop);
	log_control(&daemon->logs, "The GPUs are not known: %s", daemon->probe_failure.text);
}

static void probe_end(struct probe *probe)
{
	struct daemon *daemon = probe->daemon;

	daemon->probe = NULL;
	daemon->probe_failure = (struct error_message){0};
	if (!devices_are_complete(&probe->found) ||
		devices_copy(&daemon->devices, &probe->found) < 0)
		probe_note_failure(daemon, probe);
	else
		turns_on_probe(daemon);
	uv_close((uv_handle_t *)&probe->exit_poll, on_probe_closed);
	uv_close((uv_handle_t *)&probe->output_poll, on_probe_closed);
	uv_close((uv_handle_t *)&probe->timer, on_probe_closed);
	probe_resume_waiters(daemon, probe);
}

/* ---- its output */

static void on_probe_line(void *arg, const char *line)
{
	struct probe *probe = arg;

	snprintf(probe->last_line, sizeof(probe->last_line), "%s", line);
	log_server(&probe->daemon->logs, false, &(struct log_subject){.server = probe->pid}, line);
}

/* A frame begins with a zero byte; a line never does. */
static void probe_feed(struct probe *probe, uint8_t byte)
{
	if (probe->in_size == 0 && (byte != 0 || probe->line_buffer.size > 0)) {
		line_buffer_feed(&probe->line_buffer, (const char *)&byte, 1, on_probe_line, probe);
		return;
	}
	probe->in.bytes[probe->in_size++] = byte;
	if (probe->in_size < sizeof(probe->in))
		return;
	probe->in_size = 0;
	if (probe->in.head.type == FRAME_DEVICE && probe->in.head.size == sizeof(probe->in))
		(void)devices_add(&probe->found, &probe->in.device);
}

static void probe_read_output(struct probe *probe)
{
	uint8_t bytes[4096];
	ssize_t n;

	do {
		n = read(probe->output, bytes, sizeof(bytes));
		for (ssize_t i = 0; i < n; i++)
			probe_feed(probe, bytes[i]);
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0)
		uv_poll_stop(&probe->output_poll);
}

static void on_probe_output(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	probe_read_output(poll->data);
}

/* ---- its end */

static void on_probe_exit(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	struct probe *probe = poll->data;

	waitpid(probe->pid, NULL, WNOHANG);
	probe_read_output(probe);
	line_buffer_end(&probe->line_buffer, on_probe_line, probe);
	probe_end(probe);
}

static void on_probe_overdue(uv_timer_t *timer)
{
	struct probe *probe = timer->data;

	if (probe->is_killed) {
		probe_end(probe);
		return;
	}
	snprintf(probe->last_line, sizeof(probe->last_line), "the driver did not answer for %d s",
		PROBE_MS / 1000);
	probe_stop(probe->daemon);
}

void probe_stop(struct daemon *daemon)
{
	struct probe *probe = daemon->probe;

	if (!probe || probe->is_killed)
		return;
	probe->is_killed = true;
	if (daemon->is_quitting)
		probe_resume_waiters(daemon, probe);
	process_signal(probe->pidfd, SIGKILL);
	uv_timer_start(&probe->timer, on_probe_overdue, KILL_MS, 0);
}

/* ---- its start */

static int probe_watch(struct probe *probe)
{
	struct daemon *daemon = probe->daemon;
	int r = uv_poll_init(&daemon->loop, &probe->exit_poll, probe->pidfd);

	if (r < 0)
		return r;
	probe->n_handles++;
	r = uv_poll_init(&daemon->loop, &probe->output_poll, probe->output);
	if (r == 0)
		probe->n_handles++;
	uv_timer_init(&daemon->loop, &probe->timer);
	probe->n_handles++;
	probe->exit_poll.data = probe->output_poll.data = probe->timer.data = probe;
	if (r < 0) {
		uv_close((uv_handle_t *)&probe->exit_poll, on_probe_closed);
		uv_close((uv_handle_t *)&probe->timer, on_probe_closed);
		return r;
	}
	uv_poll_start(&probe->exit_poll, UV_READABLE, on_probe_exit);
	uv_poll_start(&probe->output_poll, UV_READABLE, on_probe_output);
	uv_timer_start(&probe->timer, on_probe_overdue, PROBE_MS, 0);
	return 0;
}

/* A process that cannot be watched must not run. */
static void probe_abandon(struct probe *probe)
{
	process_signal(probe->pidfd, SIGKILL);
	waitpid(probe->pid, NULL, 0);
	if (probe->n_handles > 0)
		return;
	closep(&probe->pidfd);
	closep(&probe->output);
	free(probe);
}

static int probe_start(struct daemon *daemon, struct error_message *error)
{
	struct probe *probe = calloc(1, sizeof(*probe));
	struct spawned spawned;
	int r;

	if (!probe)
		return error_message_set(error, -ENOMEM, "out of memory");
	r = spawn_probe(&daemon->config, &spawned, error);
	if (r < 0) {
		free(probe);
		return r;
	}
	probe->daemon = daemon;
	probe->pid = spawned.pid;
	probe->pidfd = spawned.pidfd;
	probe->output = spawned.output;
	list_init(&probe->waiters);
	r = probe_watch(probe);
	if (r < 0) {
		probe_abandon(probe);
		return error_message_set(error, r, "cannot watch the probe: %s", uv_strerror(r));
	}
	log_control(&daemon->logs, "Process %d probes for GPUs", probe->pid);
	daemon->probe = probe;
	daemon->probe_began_ms = uv_now(&daemon->loop);
	daemon->probe_began_number = daemon->n_queued;
	return 0;
}

/* False: the daemon notes why there is no probe. */
static bool probe_begin(struct daemon *daemon)
{
	if (probe_start(daemon, &daemon->probe_failure) == 0)
		return true;
	daemon->probe_failed_ms = uv_now(&daemon->loop);
	return false;
}

static bool probe_has_failed_lately(const struct daemon *daemon)
{
	return daemon->probe_failure.text[0] &&
	       uv_now(&daemon->loop) - daemon->probe_failed_ms < FAILURE_MS;
}

void probe_again(struct daemon *daemon)
{
	if (daemon->probe || daemon->is_quitting)
		return;
	if (daemon->probe_began_ms > 0 && uv_now(&daemon->loop) - daemon->probe_began_ms < AGAIN_MS)
		daemon_want_later(daemon, WANT_PROBE);
	else
		(void)probe_begin(daemon);
}

bool probe_is_done(struct daemon *daemon, struct conn *conn, const char *command)
{
	if (daemon->devices.n > 0 || daemon->is_quitting || probe_has_failed_lately(daemon))
		return true;
	if ((!daemon->probe && !probe_begin(daemon)) ||
		!pending_begin_rerun(conn, &pending_probe, command, 0))
		return true;
	list_add_tail(&daemon->probe->waiters, &conn->wait);
	return false;
}
