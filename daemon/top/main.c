/* SPDX-License-Identifier: Apache-2.0 */

/*
 * mps-top: a live screen, or printed samples. `mps-control top' executes it, with the directory of
 * the daemon in the environment. One thread.
 *
 * Invariant: what is printed is one whole sample after another; if there is none, the exit
 * status says so.
 */

#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

#include "bounds.h"
#include "clock.h"
#include "top.h"
#include "top_conn.h"
#include "top_live.h"
#include "top_options.h"
#include "top_print.h"
#include "top_screen.h"

/* For the connection, and for each reply; the daemon itself waits a second for its servers. */
#define WAIT_MS 5000
#define REPLY_MS 10000

static int print_failure(const char *why)
{
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", program_invocation_name, why);
	return EXIT_FAILURE;
}

/* Waits for a sample. 0 or -errno, then conn->why is set. */
static int take_sample(struct top_conn *conn, struct top_table *table)
{
	uint64_t end_ms = now_ms() + REPLY_MS;
	struct top_sample sample = {0};
	int r = top_conn_ask(conn, WAIT_MS);

	if (r < 0)
		return r;
	while ((r = top_conn_read(conn, &sample)) == 0) {
		struct pollfd pfd = {.fd = conn->fd, .events = POLLIN};
		uint64_t time_ms = now_ms();

		if (time_ms >= end_ms) {
			top_conn_give_up(conn);
			return -ETIMEDOUT;
		}
		poll(&pfd, 1, (int)(end_ms - time_ms));
	}
	return r < 0 ? r : top_table_update(table, &sample);
}

static void sleep_ms(uint64_t ms)
{
	struct timespec rest = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
		;
}

/* All columns where the width is unknown: a pipe, a file. */
static unsigned printed_columns(void)
{
	const char *variable = getenv("COLUMNS");
	long n = variable ? strtol(variable, NULL, 10) : 0;
	struct winsize size = {0};

	if (n > 0)
		return (unsigned)MIN(n, TOP_COLUMNS_MAX);
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return TOP_COLUMNS_MAX;
}

static int print_table(const struct top_options *options, const struct top_table *table)
{
	struct top_view view;
	int r;

	top_view_init(&view);
	r = options->is_json ? top_print_json(&view, table)
			     : top_print_text(&view, table, printed_columns());
	return r == 0 && fflush(stdout) != 0 ? -EIO : r;
}

/* The first sample only begins the interval of the second one, which is printed. */
static int print_samples(const char *path, const struct top_options *options)
{
	_cleanup_(top_table_fini) struct top_table table = {0};
	_cleanup_(top_conn_close) struct top_conn conn;
	uint64_t n = MAX(options->n_samples, (uint64_t)1);

	top_conn_init(&conn, path);
	if (take_sample(&conn, &table) < 0)
		return print_failure(conn.why);
	for (uint64_t i = 0; i < n; i++) {
		sleep_ms(options->interval_ms);
		if (take_sample(&conn, &table) < 0)
			return print_failure(conn.why);
		if (i > 0 && !options->is_json)
			putchar('\n');
		if (print_table(options, &table) < 0)
			return print_failure("cannot print");
	}
	return EXIT_SUCCESS;
}

int main(_unused_ int argc, char **argv)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	struct top_options options;
	struct error_message error;
	char path[PATH_MAX];

	if (top_options_read(&options, argv, &error) < 0)
		return print_failure(error.text);
	if (options.wants_help) {
		printf("usage: %s" TOP_USAGE "\n%s\n", argv[0], TOP_HELP);
		return EXIT_SUCCESS;
	}
	snprintf(path, sizeof(path), "%s/control",
		folder && *folder ? folder : PIPE_DIRECTORY_DEFAULT);
	setlocale(LC_CTYPE, "");
	if (options.is_once || options.is_json || !top_screen_is_possible())
		return print_samples(path, &options);
	return top_live_run(path, &options);
}
