/* SPDX-License-Identifier: Apache-2.0 */

/*
 * top on a terminal: its loop. One thread.
 *
 * Invariant: signals are read in the loop, so that the terminal is restored before the program
 * stops or ends. A daemon that has gone is asked again at each interval.
 */

#include "top_live.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "clock.h"
#include "top_conn.h"
#include "top_screen.h"

/* How long a reply may take; the daemon itself waits a second for its servers. */
#define REPLY_MS 5000

struct live {
	const struct top_options *options;
	struct top_conn conn;
	struct top_table table;
	struct top_view view;
	uint64_t next_ms;  /* when to ask for the next sample */
	uint64_t reply_ms; /* the deadline of a reply */
	uint64_t n_samples;
	bool is_over;
	bool has_trouble; /* conn.why says which */
};

/* ---- samples */

static void note_failure(struct live *live, int r)
{
	live->has_trouble |= r < 0;
}

static void ask(struct live *live)
{
	uint64_t time_ms = now_ms();

	live->next_ms = time_ms + live->options->interval_ms;
	live->reply_ms = time_ms + REPLY_MS;
	note_failure(live, top_conn_ask(&live->conn, 0));
}

static void take_sample(struct live *live, struct top_sample *sample)
{
	live->has_trouble = false;
	if (top_table_update(&live->table, sample) < 0)
		live->is_over = true;
	/* The first one has no rates. */
	if (live->n_samples++ == live->options->n_samples && live->options->n_samples > 0)
		live->is_over = true;
}

static void read_reply(struct live *live)
{
	struct top_sample sample = {0};
	int r = top_conn_read(&live->conn, &sample);

	if (r == 1)
		take_sample(live, &sample);
	note_failure(live, r);
}

static void watch_time(struct live *live)
{
	uint64_t time_ms = now_ms();

	if (live->conn.is_waiting && time_ms >= live->reply_ms) {
		top_conn_give_up(&live->conn);
		note_failure(live, -ETIMEDOUT);
	}
	if (!live->conn.is_waiting && time_ms >= live->next_ms)
		ask(live);
}

static int timeout_of(const struct live *live)
{
	uint64_t time_ms = now_ms();
	uint64_t end_ms = live->conn.is_waiting ? live->reply_ms : live->next_ms;

	return end_ms > time_ms ? (int)(end_ms - time_ms) : 0;
}

/* ---- the user */

static void read_keys(struct live *live)
{
	int key;

	while ((key = top_screen_key()) >= 0) {
		enum top_view_action action = top_view_press(&live->view, key);

		live->is_over |= action == TOP_QUIT;
		if (action == TOP_SAMPLE)
			live->next_ms = 0;
	}
}

/* Is never called, because the signal is blocked. */
static void on_stop(_unused_ int signal)
{
}

/* Stops as without a handler: in a session without a shell, the kernel ignores the signal. */
static void stop_process(void)
{
	sigset_t signals, before;

	top_screen_suspend();
	signal(SIGTSTP, SIG_DFL);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &signals, &before);
	raise(SIGTSTP);
	sigprocmask(SIG_SETMASK, &before, NULL);
	signal(SIGTSTP, on_stop);
	top_screen_resume();
}

static void handle_signal(struct live *live, int signal)
{
	switch (signal) {
	case SIGWINCH:
		top_screen_resize();
		break;
	case SIGTSTP:
		stop_process();
		break;
	case SIGCONT:
		top_screen_resume();
		break;
	default:
		live->is_over = true;
	}
}

static void read_signals(struct live *live, int fd)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		handle_signal(live, (int)info.ssi_signo);
}

/* ---- together */

/*
 * Blocks the signals of a terminal, which are then read from the descriptor. Beside the default
 * action, ncurses would ignore SIGTSTP while it draws, and the kernel would drop a signal that
 * waits to be read.
 */
static int open_signals(void)
{
	static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
	sigset_t signals;
	int fd;

	sigemptyset(&signals);
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++)
		sigaddset(&signals, handled[i]);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGTSTP, on_stop);
	fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void draw(struct live *live)
{
	const struct top_picture picture = {
		.table = &live->table,
		.view = &live->view,
		.socket_path = live->conn.path,
		.interval_s = (double)live->options->interval_ms / 1000,
		.trouble = live->has_trouble ? live->conn.why : "",
	};

	if (top_screen_draw(&picture) < 0)
		live->is_over = true;
}

static void run_loop(struct live *live, int signals)
{
	while (!live->is_over) {
		struct pollfd fds[] = {
			{.fd = STDIN_FILENO, .events = POLLIN},
			{.fd = signals, .events = POLLIN},
			{.fd = live->conn.fd, .events = POLLIN},
		};

		draw(live);
		poll(fds, ARRAY_SIZE(fds), timeout_of(live));
		if (fds[2].revents)
			read_reply(live);
		if (fds[0].revents)
			read_keys(live);
		/* The terminal has gone. */
		if (fds[0].revents & ~POLLIN)
			live->is_over = true;
		if (fds[1].revents)
			read_signals(live, signals);
		watch_time(live);
	}
}

int top_live_run(const char *path, const struct top_options *options)
{
	_cleanup_close_ int signals = open_signals();
	struct live live = {.options = options};

	if (signals < 0 || top_screen_open() < 0) {
		fprintf(stderr, "%s: cannot use the terminal: try top --once\n",
			program_invocation_name);
		return EXIT_FAILURE;
	}
	top_conn_init(&live.conn, path);
	top_view_init(&live.view);
	ask(&live);
	run_loop(&live, signals);
	top_screen_close();
	top_conn_close(&live.conn);
	top_table_fini(&live.table);
	return EXIT_SUCCESS;
}
