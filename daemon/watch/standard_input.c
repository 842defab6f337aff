/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Standard input. Loop thread.
 *
 * Invariant: it is read only when it is readable, so the loop does not block.
 */

#include "standard_input.h"

#include <string.h>
#include <sys/stat.h>

#include "daemon/text/line_buffer.h"
#include "daemon/state/daemon.h"

/* As -q: the program that keeps the pipe may wait for a minute, and then kill the daemon. */
#define QUIT_MS 10000

static struct {
	uv_poll_t poll;
	struct line_buffer buffer;
	bool is_open;
} input;

static void on_line(void *arg, const char *line)
{
	struct daemon *daemon = arg;

	log_control(&daemon->logs, "Standard input: %s", line);
	if (strcmp(line, "quit") == 0)
		daemon_want_quit(daemon, QUIT_MS);
	else
		log_control(&daemon->logs,
			"Standard input takes quit only: send commands with mps-control");
}

static void on_input(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	struct daemon *daemon = poll->data;
	char bytes[256];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n > 0)
		line_buffer_feed(&input.buffer, bytes, (size_t)n, on_line, daemon);
	if (n > 0)
		return;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	line_buffer_end(&input.buffer, on_line, daemon);
	log_control(&daemon->logs, "Standard input has ended: the daemon shuts down");
	daemon_want_quit(daemon, QUIT_MS);
	standard_input_close();
}

void standard_input_watch(struct daemon *daemon)
{
	struct stat st;

	if (fstat(STDIN_FILENO, &st) < 0 || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)) ||
		uv_poll_init(&daemon->loop, &input.poll, STDIN_FILENO) < 0)
		return;
	input.poll.data = daemon;
	input.is_open = true;
	uv_poll_start(&input.poll, UV_READABLE, on_input);
}

void standard_input_close(void)
{
	if (input.is_open)
		uv_close((uv_handle_t *)&input.poll, NULL);
	input.is_open = false;
}
