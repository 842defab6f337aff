/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the configuration file again. Loop thread.
 *
 * Invariant: either the whole file is applied, or nothing of it.
 */

#include <string.h>

#include "admission.h"
#include "daemon.h"
#include "file_limits.h"
#include "metrics_server.h"
#include "reload.h"

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
	if (daemon->n_tenants > 0) {
		/* Its interval depends on MPS_IDLE_S. */
		uv_timer_stop(&daemon->idle_timer);
		daemon_watch_idle(daemon);
	}
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
	if (metrics_server_listen(daemon, config_metrics_address(config), &error) < 0)
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
	file_limits_apply(daemon, next, report);
	apply_metrics(daemon, report);
}

int reload_run(struct daemon *daemon, bool if_changed, const struct config_report *report)
{
	/* Static, as it is large. At the end it has what the daemon had before. */
	static struct config_file next;
	int r;

	if (!daemon->config_file.path[0])
		return RELOAD_UNCHANGED;
	next = (struct config_file){.is_required = daemon->config_file.is_required};
	memcpy(next.path, daemon->config_file.path, sizeof(next.path));
	r = config_file_read(&next, report);
	if (r != 0)
		r = -EINVAL;
	else if (if_changed && next.hash == daemon->config_file.hash)
		r = RELOAD_UNCHANGED;
	else
		apply_file(daemon, &next, report);
	config_file_fini(&next);
	return r;
}

/* ---- SIGHUP */

static void log_line(void *arg, const char *line)
{
	log_control(arg, "Reload: %s", line);
}

void reload_on_hangup(struct daemon *daemon)
{
	const struct config_report report = {log_line, &daemon->logs};
	struct error_message error;
	int r;

	manager_begin_reload(daemon);
	r = log_files_reopen(&daemon->logs, &error);
	log_control(&daemon->logs, "%s", r < 0 ? error.text : "Reopened the logs");
	r = reload_run(daemon, true, &report);
	if (r < 0)
		config_report(&report, RELOAD_REFUSED, daemon->config_file.path);
	else if (r != RELOAD_UNCHANGED)
		config_report(&report, "applied %.200s", daemon->config_file.path);
	manager_end_reload(daemon);
}
