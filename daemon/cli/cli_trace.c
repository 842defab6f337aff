/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command trace in the front end. Main thread.
 *
 * Invariant: FILE is opened before the trace is ended, so a mistake in its name loses
 * nothing. The daemon forgets the trace only after FILE is written.
 */

#include "cli_trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "daemon/watch/trace_text.h"

/* "trace read ID CHUNK" for each chunk of the daemon's largest trace. */
#define REQUEST_MAX 8192u

struct trace_command {
	const char *verb;
	const char *server_pid; /* NULL: all servers */
	const char *path;
};

/* What the daemon said of the traces that were written. */
struct totals {
	uint64_t n_events, n_lost;
	unsigned n_clients, n_traces, n_cut;
	bool has_event; /* in FILE: the next one needs a comma */
};

static bool parse_command(char *const *command, struct trace_command *ret)
{
	size_t n = 0;

	while (command[n])
		n++;
	if (n != 3 && n != 5)
		return false;
	*ret = (struct trace_command){.verb = command[1], .path = command[n - 1]};
	if (n == 5 && strcmp(command[2], "-server") == 0)
		ret->server_pid = command[3];
	return ret->path[0] != '-' && (n == 3 || ret->server_pid);
}

bool cli_trace_wants(char *const *command)
{
	return command[0] && command[1] && strcmp(command[0], "trace") == 0 &&
	       (strcmp(command[1], "start") == 0 || strcmp(command[1], "stop") == 0);
}

static int report_usage(void)
{
	fputs("mps-control: Usage: trace start|stop [-server PID] FILE\n", stderr);
	return EXIT_FAILURE;
}

static int report_file(const char *path, int error)
{
	fprintf(stderr, "mps-control: %s: %s\n", path, strerror(error));
	return EXIT_FAILURE;
}

/* The command for the daemon, which gets no FILE. */
static void format_command(const struct trace_command *command, char *text, size_t size)
{
	snprintf(text, size, "trace %s%s%s", command->verb, command->server_pid ? " -server " : "",
		command->server_pid ? command->server_pid : "");
}

/* ---- start */

static int open_file(const char *path, bool *ret_is_new)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	*ret_is_new = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int start(const struct config *config, const struct trace_command *command, bool is_strict)
{
	char text[256], *words[] = {text, NULL};
	bool is_new;
	int fd = open_file(command->path, &is_new);

	if (fd < 0)
		return report_file(command->path, -fd);
	close(fd);
	if (is_new)
		unlink(command->path);
	format_command(command, text, sizeof(text));
	return cli_run(config, words, is_strict);
}

/* ---- stop */

/* Gives the command and returns the reply, which the caller frees; NULL: it failed. */
static char *ask(const struct config *config, const char *command, bool *ret_is_answered)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	bool has_failed = true;

	*ret_is_answered = false;
	if (!out)
		return NULL;
	*ret_is_answered = cli_ask(config, command, out, &has_failed) == EXIT_SUCCESS;
	if (fclose(out) != 0 || !*ret_is_answered || has_failed)
		return NULL;
	return TAKE_PTR(text);
}

/* Adds a reply's lists of events to the list in FILE. */
static void write_lists(FILE *file, char *lists, struct totals *totals)
{
	char *rest = NULL;

	for (char *list = strtok_r(lists, "\n", &rest); list; list = strtok_r(NULL, "\n", &rest)) {
		size_t length = strlen(list);

		if (length <= 2 || list[0] != '[' || list[length - 1] != ']')
			continue;
		if (totals->has_event)
			fputs(",\n", file);
		totals->has_event = true;
		fwrite(list + 1, 1, length - 2, file);
	}
}

static bool write_trace(const struct config *config, FILE *file, uint64_t id, unsigned n_chunks,
	struct totals *totals)
{
	_cleanup_free_ char *lists = NULL;
	char request[REQUEST_MAX] = "";
	size_t used = 0;
	bool is_answered;

	for (unsigned i = 0; i < n_chunks && used + 64 < sizeof(request); i++)
		used += (size_t)snprintf(request + used, sizeof(request) - used,
			"%strace read %" PRIu64 " %u", i > 0 ? "\n" : "", id, i);
	if (used == 0)
		return true;
	lists = ask(config, request, &is_answered);
	if (lists)
		write_lists(file, lists, totals);
	return lists;
}

/* Writes the traces that `reply' lists. */
static bool write_traces(
	const struct config *config, FILE *file, const char *reply, struct totals *totals)
{
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", file);
	for (const char *line = reply; line && *line; line = strchr(line, '\n')) {
		unsigned n_chunks, n_clients;
		uint64_t id, n_events, n_lost;
		int pid, is_cut;

		line += *line == '\n';
		if (sscanf(line, TRACE_LINE_SCAN, &id, &pid, &n_chunks, &n_events, &n_clients,
			    &n_lost, &is_cut) != 7)
			continue;
		if (!write_trace(config, file, id, n_chunks, totals))
			return false;
		totals->n_traces++;
		totals->n_events += n_events;
		totals->n_clients += n_clients;
		totals->n_lost += n_lost;
		totals->n_cut += is_cut != 0;
	}
	fprintf(file,
		"\n],\"otherData\":{\"events\":%" PRIu64
		",\"clients\":%u,\"missing_events\":%" PRIu64
		",\"servers\":%u,\"ended_servers\":%u}}\n",
		totals->n_events, totals->n_clients, totals->n_lost, totals->n_traces,
		totals->n_cut);
	return true;
}

static void forget_traces(const struct config *config, const char *reply)
{
	for (const char *line = reply; line && *line; line = strchr(line, '\n')) {
		char request[64];
		bool is_answered;
		uint64_t id;

		line += *line == '\n';
		if (sscanf(line, "Trace %" SCNu64, &id) != 1)
			continue;
		snprintf(request, sizeof(request), "trace drop %" PRIu64, id);
		free(ask(config, request, &is_answered));
	}
}

static void print_totals(const char *path, const struct totals *totals)
{
	printf("%s: %" PRIu64 " events of %u clients\n", path, totals->n_events, totals->n_clients);
	if (totals->n_lost > 0)
		printf("The trace was full: %" PRIu64 " later events are missing\n",
			totals->n_lost);
	if (totals->n_cut > 0)
		printf("The trace was cut short: %u of %u servers ended before it\n", totals->n_cut,
			totals->n_traces);
}

/* Takes `fd'. */
static int write_file(const struct config *config, const char *path, int fd, const char *reply)
{
	_cleanup_fclose_ FILE *file = NULL;
	struct totals totals = {0};

	/* What is no regular file cannot be cut. */
	if (ftruncate(fd, 0) < 0 && errno != EINVAL) {
		int error = errno;

		close(fd);
		return report_file(path, error);
	}
	file = fdopen(fd, "w");
	if (!file) {
		close(fd);
		return report_file(path, ENOMEM);
	}
	if (!write_traces(config, file, reply, &totals))
		return EXIT_FAILURE;
	if (fflush(file) != 0)
		return report_file(path, errno);
	forget_traces(config, reply);
	print_totals(path, &totals);
	return EXIT_SUCCESS;
}

static int stop(const struct config *config, const struct trace_command *command, bool is_strict)
{
	_cleanup_free_ char *reply = NULL;
	char text[256];
	bool is_new, is_answered;
	int fd = open_file(command->path, &is_new);

	if (fd < 0)
		return report_file(command->path, -fd);
	format_command(command, text, sizeof(text));
	reply = ask(config, text, &is_answered);
	if (reply)
		return write_file(config, command->path, fd, reply);
	close(fd);
	if (is_new)
		unlink(command->path);
	return is_answered && !is_strict ? EXIT_SUCCESS : EXIT_FAILURE;
}

int cli_trace_run(const struct config *config, char *const *command, bool is_strict)
{
	struct trace_command parsed;

	if (!parse_command(command, &parsed))
		return report_usage();
	return strcmp(parsed.verb, "start") == 0 ? start(config, &parsed, is_strict)
						 : stop(config, &parsed, is_strict);
}
