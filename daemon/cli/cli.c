/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command line: a program of one thread that ends when its commands are
 * answered.
 *
 * Invariant: it succeeds only after the daemon's EOT, so a daemon that dies
 * early is never taken for an empty answer.
 */

#include "cli.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "trust.h"
#include "daemon/text/process.h"
#include "daemon/text/same_file.h"
#include "daemon/ask/control_socket.h"
#include "daemon/config/allowances.h"

/* For the connection only: commands take as long as the daemon's own deadlines allow. */
#define CONNECT_MS 5000

/*
 * After this time without reading or answering, and then after twice as long,
 * the daemon is asked on another connection whether it is alive. It gets
 * SIGN_MS to answer: its loop never blocks, whatever a command waits for.
 */
#define SILENCE_MS 10000
#define SILENCE_MAX_MS 300000
#define SIGN_MS 5000

_Static_assert(QUEUED_COMMAND_CONN_MS < SILENCE_MS, "a queued command is not silence");

/*
 * A daemon that has quit is gone from the table of processes when its parent has waited for it.
 * A parent that never waits is not waited for long.
 */
#define EXIT_MS 5000
#define REAP_MS 1000

static const char eot[] = {COMMAND_EOT, '\n'};
static const char nak[] = {COMMAND_NAK, '\n'};

static int report_untrusted(const char *why)
{
	puts("Cannot find MPS control daemon process");
	fflush(stdout);
	fprintf(stderr, "mps-control: %s\n", why);
	return EXIT_FAILURE;
}

static int report_no_daemon(const struct config *config, int r)
{
	puts("Cannot find MPS control daemon process");
	fflush(stdout);
	fprintf(stderr,
		"mps-control: %s: %s: start the daemon (mps-control -d), or set "
		"CUDA_MPS_PIPE_DIRECTORY to the directory of the running daemon\n",
		config->socket_path, strerror(-r));
	return EXIT_FAILURE;
}

static int report_broken(const char *why)
{
	puts("Cannot send command to MPS control daemon process");
	fflush(stdout);
	fprintf(stderr, "mps-control: %s: the command may not have been executed\n", why);
	return EXIT_FAILURE;
}

/* The exchange between standard input, the daemon and standard output. */
struct cli {
	const struct config *config;
	FILE *out; /* replies */
	int sock;
	int silence_ms;       /* after which the daemon is asked whether it is alive */
	bool has_ended;       /* all input and EOT have been sent */
	bool has_eot;         /* the daemon's answer to EOT, and nothing since */
	unsigned n_eot;       /* from the daemon; the one that was not requested ends it */
	bool in_mark;         /* within a line that reports a failure, or is a note */
	bool prints_mark;     /* print that line */
	bool prints_failures; /* print lines that report a failure */
	bool has_failed;
	char last; /* byte of the input */
};

/* Whether the daemon answers an EOT on a new connection; a daemon that is ending need not. */
static bool is_daemon_alive(const struct config *config)
{
	_cleanup_close_ int sock = control_socket_connect(config->socket_path, CONNECT_MS);
	struct pollfd pfd = {.fd = sock, .events = POLLIN};

	if (sock < 0)
		return sock != -EAGAIN;
	return send(sock, eot, sizeof(eot), MSG_NOSIGNAL) < 0 || poll(&pfd, 1, SIGN_MS) != 0;
}

/* poll() that gives up on a daemon that hangs: 0, -ETIMEDOUT or -errno. */
static int cli_wait(struct cli *cli, struct pollfd *fds, nfds_t n, bool has_deadline)
{
	int r = poll(fds, n, has_deadline ? cli->silence_ms : -1);

	if (r != 0)
		return r > 0 || errno == EINTR ? 0 : -errno;
	cli->silence_ms = MIN(2 * cli->silence_ms, SILENCE_MAX_MS);
	return is_daemon_alive(cli->config) ? 0 : -ETIMEDOUT;
}

static int cli_print_reply(struct cli *cli);

/* Until there is space for more input. A daemon whose replies are not read reads no input. */
static int cli_wait_for_space(struct cli *cli)
{
	struct pollfd pfd = {.fd = cli->sock, .events = POLLIN | POLLOUT};
	int r = cli_wait(cli, &pfd, 1, true);

	if (r == 0 && (pfd.revents & POLLIN))
		r = cli_print_reply(cli) > 0 ? 0 : -EPIPE;
	return r;
}

static int cli_send(struct cli *cli, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = send(cli->sock, bytes, size, MSG_NOSIGNAL);
		int r = n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;

		if (r == 0 && n < 0)
			r = cli_wait_for_space(cli);
		if (r < 0)
			return r;
		if (n < 0)
			continue;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

/* The end of the input; a last line without a newline gets one. */
static int cli_send_end(struct cli *cli)
{
	int r = cli->last == '\n' ? 0 : cli_send(cli, "\n", 1);

	if (r == 0)
		r = cli_send(cli, eot, sizeof(eot));
	if (r == 0)
		shutdown(cli->sock, SHUT_WR);
	cli->has_ended = true;
	return r;
}

static int cli_send_command(struct cli *cli, char *const *command)
{
	int r = 0;

	for (size_t i = 0; command[i] && r == 0; i++) {
		r = i > 0 ? cli_send(cli, " ", 1) : 0;
		if (r == 0)
			r = cli_send(cli, command[i], strlen(command[i]));
	}
	cli->last = '\0';
	return r < 0 ? r : cli_send_end(cli);
}

static int cli_send_input(struct cli *cli)
{
	char bytes[1024];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0)
		return cli_send_end(cli);
	cli->last = bytes[n - 1];
	return cli_send(cli, bytes, (size_t)n);
}

/* The line goes to standard error; standard output is flushed first, as it was received first. */
static void cli_begin_mark(struct cli *cli, bool is_failure)
{
	cli->in_mark = true;
	cli->prints_mark = !is_failure || cli->prints_failures;
	cli->has_failed |= is_failure;
	fflush(cli->out);
	if (cli->prints_mark)
		fputs("mps-control: ", stderr);
}

static void cli_print_byte(struct cli *cli, char byte)
{
	cli->has_eot = false;
	if (byte == COMMAND_NAK || byte == COMMAND_SYN) {
		cli_begin_mark(cli, byte == COMMAND_NAK);
	} else if (byte == COMMAND_EOT) {
		cli->has_eot = true;
		cli->n_eot++;
	} else if (cli->in_mark) {
		if (cli->prints_mark)
			fputc(byte, stderr);
		cli->in_mark = byte != '\n';
	} else {
		fputc(byte, cli->out);
	}
}

/* 1: more may follow; 0: the daemon closed the connection; -errno. */
static int cli_print_reply(struct cli *cli)
{
	char bytes[4096];
	ssize_t n = recv(cli->sock, bytes, sizeof(bytes), 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	if (n == 0)
		return 0;
	for (ssize_t i = 0; i < n; i++)
		cli_print_byte(cli, bytes[i]);
	if (cli->out == stdout)
		fflush(stdout);
	/* An unrequested EOT: the daemon has ended, as the command asked. */
	return cli->has_eot && !cli->has_ended ? 0 : 1;
}

static int cli_exchange(struct cli *cli)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = cli->sock, .events = POLLIN},
			{.fd = cli->has_ended ? -1 : STDIN_FILENO, .events = POLLIN},
		};
		int r = cli_wait(cli, fds, ARRAY_SIZE(fds), cli->has_ended);

		if (r < 0)
			return r;
		if (fds[0].revents)
			r = cli_print_reply(cli);
		if (fds[0].revents && r <= 0)
			return r;
		if (fds[1].revents && cli_send_input(cli) < 0)
			return -EPIPE;
	}
}

/* Where both outputs are one file, a terminal for example, the reply itself shows the failure. */
static bool needs_failure_lines(void)
{
	return !same_file(STDOUT_FILENO, STDERR_FILENO);
}

/* The daemon's process, or -EBADF if another namespace hides it. PID 1 is systemd, which listens.
 */
static int open_daemon(int sock)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0 || cred.pid <= 1)
		return -EBADF;
	return process_open_peer(sock);
}

/* The daemon has quit: waits until its PID is free. */
static void wait_for_exit(int daemon)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct pollfd pfd = {.fd = daemon, .events = POLLIN};

	if (daemon < 0 || poll(&pfd, 1, EXIT_MS) != 1)
		return;
	for (int ms = 0; ms < REAP_MS && process_signal(daemon, 0) == 0; ms++)
		nanosleep(&pause, NULL);
}

static void cli_print_hint(const struct config *config)
{
	fprintf(stderr,
		"mps-control: connected to the daemon at %s: enter one command per line; Ctrl-D "
		"disconnects, quit stops the daemon\n",
		config->socket_path);
}

static int cli_converse(struct cli *cli, char *const *command)
{
	const struct config *config = cli->config;
	_cleanup_close_ int sock = -EBADF, daemon = -EBADF;
	char why[512];
	int r;

	if (trust_path(config->socket_path, why, sizeof(why)) < 0)
		return report_untrusted(why);
	cli->sock = sock = control_socket_connect(config->socket_path, CONNECT_MS);
	if (sock < 0)
		return report_no_daemon(config, sock);
	if (trust_peer(sock, config->socket_path, why, sizeof(why)) < 0)
		return report_untrusted(why);
	daemon = open_daemon(sock);
	/* Sent at once: a person at a terminal may take a while to type the first command. */
	r = cli_send(cli, nak, sizeof(nak));
	if (r == 0 && !*command && isatty(STDIN_FILENO))
		cli_print_hint(config);
	if (r == 0 && *command)
		r = cli_send_command(cli, command);
	/* Read answers even if sending failed: they may say why. */
	if (r < 0)
		cli->has_ended = true;
	r = cli_exchange(cli);
	/* The daemon exits when this side is closed, too. */
	close(TAKE_FD(sock));
	if (cli->n_eot > cli->has_ended)
		wait_for_exit(daemon);
	if (cli->has_eot)
		return EXIT_SUCCESS;
	return report_broken(r == -ETIMEDOUT ? "the daemon is running but does not answer"
			     : r < 0         ? strerror(-r)
					     : "the daemon closed the connection");
}

int cli_run(const struct config *config, char *const *command, bool is_strict)
{
	struct cli cli = {.config = config, .out = stdout, .silence_ms = SILENCE_MS, .last = '\n'};
	int status;

	cli.prints_failures = needs_failure_lines();
	status = cli_converse(&cli, command);
	return is_strict && cli.has_failed ? EXIT_FAILURE : status;
}

int cli_ask(const struct config *config, const char *command, FILE *out, bool *ret_has_failed)
{
	struct cli cli = {.config = config,
		.out = out,
		.silence_ms = SILENCE_MS,
		.last = '\n',
		.prints_failures = true};
	char *words[] = {(char *)command, NULL};
	int status = cli_converse(&cli, words);

	*ret_has_failed = cli.has_failed;
	return status;
}
