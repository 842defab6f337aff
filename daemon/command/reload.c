/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the configuration file again. Loop thread.
 *
 * Invariant: either the whole file is applied, or nothing of it.
 */

#include "reload.h"

#include <string.h>

#include "commands.h"
#include "config_apply.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/admission.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/watch/exporter.h"
#include "daemon/watch/spare.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/* The name service of the system has this time to find the users of the file. */
#define RELOAD_MS 20000

/* Nothing was done, because the file is as before. */
#define RELOAD_UNCHANGED 1

/* ---- the section [daemon] */

static bool is_same_text(const char *one, const char *other)
{
	return one == other || (one && other && strcmp(one, other) == 0);
}

static const char *value_text(const char *text)
{
	return text ? text : "not set";
}

static void report_key(enum config_key key, const char *before, const char *now,
	const struct config_report *report)
{
	static const char *const effects[] = {
		[CONFIG_AT_ONCE] = "",
		[CONFIG_FOR_NEW_SERVERS] = ", for servers that start from now on",
		[CONFIG_AFTER_RESTART] =
			": cannot change while the daemon runs: quit it and start it again",
	};

	config_report(report, "%s: %.200s (was %.200s)%s", config_key_name(key), value_text(now),
		value_text(before), effects[config_key_effect(key)]);
}

/* Compares the values in force with the next ones, which keep what cannot change. */
static void prepare_key(enum config_key key, struct config_values *old, struct config_values *next,
	const struct config_report *report)
{
	const char *before = config_key_text(key, old), *now = config_key_text(key, next);

	if (is_same_text(before, now))
		return;
	report_key(key, before, now, report);
	if (config_key_effect(key) == CONFIG_AFTER_RESTART) {
		struct config_value kept = old->of[key];

		old->of[key] = next->of[key];
		next->of[key] = kept;
	}
}

/*
 * A level that a command has set stays, unless the file says something about it, or has said so
 * before.
 */
static void apply_log_level(
	struct daemon *daemon, const struct config_file *old, const struct config_report *report)
{
	const struct config_file *file = &daemon->config_file;
	const char *level = config_key_text(CONFIG_LOG_LEVEL, &file->values);
	bool is_new = !is_same_text(config_key_text(CONFIG_LOG_LEVEL, &old->values), level);

	if (file->values.of[CONFIG_LOG_LEVEL].line == 0 && !is_new)
		return;
	if (!is_new && daemon->logs.is_verbose != daemon->config.is_verbose)
		config_report(report, "log_level: %s (was %s, which a command had set)", level,
			daemon->logs.is_verbose ? "debug" : "info");
	daemon->logs.is_verbose = daemon->config.is_verbose;
}

/* The values are in the configuration: puts those in force that other objects have copies of. */
static void apply_keys(struct daemon *daemon)
{
	for (enum config_key key = 0; key < CONFIG_KEYS; key++)
		if (config_key_effect(key) != CONFIG_AFTER_RESTART)
			config_key_apply(key, &daemon->config);
	daemon->logs.options.size_max = (uint64_t)daemon->config.log_max_mib << 20;
	daemon->guest_conns_max = admission_guests_max(daemon->config.servers_max);
	/* Its interval depends on MPS_IDLE_S: daemon_turn() starts it again. */
	uv_timer_stop(&daemon->idle_timer);
}

static void apply_metrics(struct daemon *daemon, const struct config_report *report)
{
	const struct config *config = &daemon->config;
	struct error_message error;

	if (config->metrics_option && config->file->of[CONFIG_METRICS_LISTEN].line > 0)
		config_report(report,
			"line %u: metrics_listen has no effect, as the daemon was started with -m "
			"%s",
			config->file->of[CONFIG_METRICS_LISTEN].line, config->metrics_option);
	if (exporter_listen(daemon, config_metrics_address(config), &error) < 0)
		config_report(report, "%s", error.text);
}

static void apply_file(
	struct daemon *daemon, struct config_file *next, const struct config_report *report)
{
	struct config_file *old = &daemon->config_file;
	struct config_file replaced;

	config_file_report_overridden(next, report);
	for (enum config_key key = 0; key < CONFIG_KEYS; key++)
		prepare_key(key, &old->values, &next->values, report);
	replaced = *old;
	*old = *next;
	*next = replaced;
	apply_keys(daemon);
	apply_log_level(daemon, next, report);
	config_apply(daemon, next, report);
	apply_metrics(daemon, report);
}

/* ---- one at a time */

struct reload {
	uv_work_t work; /* reads the file */
	struct daemon *daemon;
	struct list conns; /* commands that wait for it */
	bool is_command;   /* else SIGHUP, which applies a file only if it has changed */
	struct config_file next;
	char *lines; /* what the reading reports */
	size_t size;
	int r;
};

static void reload_free(struct reload *reload)
{
	config_file_fini(&reload->next);
	free(reload->lines);
	free(reload);
}

static void keep_line(void *arg, const char *line)
{
	fprintf(arg, "%s\n", line);
}

/* On a thread of the loop's pool: the name service may be slow. */
static void read_file(uv_work_t *work)
{
	struct reload *reload = work->data;
	FILE *lines = open_memstream(&reload->lines, &reload->size);
	const struct config_report report = {keep_line, lines};

	reload->r = lines ? config_file_read(&reload->next, &report) : -ENOMEM;
	if (lines)
		fclose(lines);
}

/* To each command that waits, and to the log after SIGHUP. */
static void report_line(void *arg, const char *line)
{
	struct reload *reload = arg;

	if (!reload->is_command)
		log_control(&reload->daemon->logs, "Reload: %s", line);
	/* A reply that cannot be sent closes its connection. */
	list_each_safe (struct conn, conn, &reload->conns, wait)
		command_reply(conn, "%s", line);
}

static void report_lines(struct reload *reload)
{
	char *rest = reload->lines;

	for (char *line = rest ? strsep(&rest, "\n") : NULL; line; line = strsep(&rest, "\n"))
		if (*line)
			report_line(reload, line);
}

/* 0, RELOAD_UNCHANGED, or -EINVAL: the file has an error. */
static int reload_apply(struct reload *reload)
{
	const struct config_report report = {report_line, reload};
	struct daemon *daemon = reload->daemon;

	report_lines(reload);
	if (reload->r != 0)
		return -EINVAL;
	if (!reload->is_command && reload->next.hash == daemon->config_file.hash)
		return RELOAD_UNCHANGED;
	apply_file(daemon, &reload->next, &report);
	/* They have the settings for new servers of before. */
	spares_end(daemon);
	return 0;
}

static void say_result(struct reload *reload, int r)
{
	const struct config_file *file = &reload->daemon->config_file;
	char line[PATH_MAX + 128];

	if (r < 0)
		snprintf(line, sizeof(line),
			"nothing has changed, as %.200s has an error: mend it and reload again",
			file->path);
	else if (file->hash != 0)
		snprintf(line, sizeof(line), "Applied %s", file->path);
	else
		snprintf(line, sizeof(line), "There is no %s: the defaults apply", file->path);
	if (!reload->is_command)
		log_control(&reload->daemon->logs, "Reload: %s",
			r == RELOAD_UNCHANGED ? "the file has not changed" : line);
	while (!list_empty(&reload->conns)) {
		struct conn *conn = container_of(reload->conns.next, struct conn, wait);

		if (r < 0)
			command_fail(conn, "%s", line);
		else
			command_reply(conn, "%s", line);
		list_remove(&conn->wait);
		pending_end(conn);
	}
}

static void reload_next(struct daemon *daemon);

static void on_file_read(uv_work_t *work, int status)
{
	struct reload *reload = work->data;
	struct daemon *daemon = reload->daemon;

	daemon->reload = NULL;
	if (status == 0 && !daemon->is_over) {
		manager_say_reload(daemon);
		say_result(reload, reload_apply(reload));
	}
	reload_free(reload);
	reload_next(daemon);
}

static struct reload *reload_new(struct daemon *daemon)
{
	const struct config_file *file = &daemon->config_file;
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload)
		return NULL;
	reload->work.data = reload;
	reload->daemon = daemon;
	list_init(&reload->conns);
	reload->next.is_required = file->is_required;
	memcpy(reload->next.path, file->path, sizeof(file->path));
	return reload;
}

/* A request that came while a file was read is not answered by what was read. */
static void reload_next(struct daemon *daemon)
{
	struct reload *reload = daemon->next_reload;

	if (!reload || daemon->reload || daemon->is_over)
		return;
	daemon->next_reload = NULL;
	daemon->reload = reload;
	uv_queue_work(&daemon->loop, &reload->work, read_file, on_file_read);
}

static void on_deadline(struct conn *conn)
{
	command_fail(conn,
		"The system has not yet found the names of users in %.200s: the file is applied "
		"as soon as it has",
		conn->daemon->config_file.path);
	list_remove(&conn->wait);
	pending_end(conn);
}

static const struct pending pending_reload = {.on_deadline = on_deadline};

/*
 * A command waits for the end, and gets errors, changes, what cannot change while the daemon runs,
 * and the result. `conn' may be NULL: SIGHUP, whose lines go to the log.
 */
static void reload_start(struct daemon *daemon, struct conn *conn)
{
	struct reload *reload = daemon->next_reload;

	if (!reload)
		reload = daemon->next_reload = reload_new(daemon);
	if (!reload) {
		if (conn)
			command_fail(conn, "The daemon is out of memory");
		return;
	}
	if (conn) {
		reload->is_command = true;
		pending_begin(conn, &pending_reload, RELOAD_MS);
		list_add_tail(&reload->conns, &conn->wait);
	}
	reload_next(daemon);
}

void reload_abandon(struct daemon *daemon)
{
	if (daemon->next_reload)
		reload_free(daemon->next_reload);
	daemon->next_reload = NULL;
}

/* ---- the command, and SIGHUP */

void command_reload(struct conn *conn, const struct tokens *tokens)
{
	struct daemon *daemon = conn->daemon;
	struct error_message error;

	if (!scope_permits_config(conn, tokens->item[0]))
		return;
	if (log_files_reopen(&daemon->logs, &error) < 0)
		command_fail(conn, "%s", error.text);
	reload_start(daemon, conn);
}

void reload_on_hangup(struct daemon *daemon)
{
	struct error_message error;
	int r = log_files_reopen(&daemon->logs, &error);

	log_control(&daemon->logs, "%s", r < 0 ? error.text : "Reopened the logs");
	if (daemon->config_file.path[0])
		reload_start(daemon, NULL);
}
