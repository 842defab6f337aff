/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The configuration file. main() before the loop, then the loop thread.
 *
 * Invariant: each value in here has passed the function that also checks the
 * value of the environment or of a command.
 */

#include "config_file.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "config_text.h"
#include "hash.h"
#include "daemon/text/group_name.h"
#include "daemon/text/ini.h"
#include "daemon/text/line_buffer.h"
#include "daemon/text/nearest.h"
#include "daemon/text/tokenize.h"

/* More are counted, but not reported: the file is another one than meant. */
#define ERRORS_SHOWN_MAX 100

#define KEY_UID "uid"
#define KEY_NAMES_MAX MAX(CONFIG_KEYS, SETTINGS + 1)

static const char *const kinds[] = {
	[SECTION_DAEMON] = "daemon",
	[SECTION_DEFAULT] = "default",
	[SECTION_USER] = "user",
	[SECTION_GROUP] = "group",
};

/* The state of one reading. */
struct reading {
	struct config_file *file;
	const struct config_report *report;
	int n_errors;
	unsigned line;
	enum section_kind kind;
	unsigned daemon_line; /* 0: [daemon] has not begun yet */
};

/* ---- errors */

void config_report(const struct config_report *report, const char *format, ...)
{
	char line[LINE_MAX_SIZE];

	format_arguments(line, format);
	line_clean(line);
	report->on_line(report->arg, line);
}

/* Reports an error of this line: "/etc/mps.conf:12: …". False. */
#define reading_fail(reading, format, ...)                                                         \
	({                                                                                         \
		if (++(reading)->n_errors <= ERRORS_SHOWN_MAX)                                     \
			config_report((reading)->report, "%.200s:%u: " format,                     \
				(reading)->file->path, (reading)->line, ##__VA_ARGS__);            \
		false;                                                                             \
	})

static void on_syntax_error(void *arg, unsigned line, const char *why)
{
	struct reading *reading = arg;

	reading->line = line;
	reading_fail(reading, "%s", why);
}

static void join_names(const char *const *names, size_t n, char *text, size_t size)
{
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(
			text + used, size - used, "%s%s", i > 0 ? ", " : "", names[i]);
}

/* ---- sections */

static struct config_section *current_section(const struct reading *reading)
{
	return &reading->file->sections[reading->file->n_sections - 1];
}

/* Bytes of an entry of a user. */
#define PASSWD_MAX 16384

/* A UID, or the name of a user, which the system looks up. */
static int parse_user(const char *text, uid_t *ret_uid)
{
	struct passwd entry, *found;
	char buffer[PASSWD_MAX];
	uint64_t number;

	if (parse_number(text, UINT32_MAX - 1, &number) == 0) {
		*ret_uid = (uid_t)number;
		return 0;
	}
	if (getpwnam_r(text, &entry, buffer, sizeof(buffer), &found) != 0 || !found)
		return -ENOENT;
	*ret_uid = entry.pw_uid;
	return 0;
}

/* False: the error has been reported. */
static bool find_kind(struct reading *reading, const char *text, enum section_kind *ret_kind)
{
	const char *nearest = nearest_word(text, kinds, ARRAY_SIZE(kinds));

	for (enum section_kind kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		if (strcmp(kinds[kind], text) == 0) {
			*ret_kind = kind;
			return true;
		}
	if (nearest)
		reading_fail(
			reading, "there is no section [%.64s]: did you mean [%s]?", text, nearest);
	else
		reading_fail(reading,
			"there is no section [%.64s]: the sections are [daemon], [default], [user "
			"NAME] and [group NAME]",
			text);
	return false;
}

static bool check_section_name(struct reading *reading, enum section_kind kind, const char *name)
{
	bool needs_name = kind == SECTION_USER || kind == SECTION_GROUP;

	if (!needs_name && *name)
		reading_fail(reading, "[%s] takes no name, but is followed by \"%.64s\"",
			kinds[kind], name);
	else if (needs_name && !*name)
		reading_fail(
			reading, "[%s] needs a name: write [%s NAME]", kinds[kind], kinds[kind]);
	else if (kind == SECTION_GROUP && !group_name_ok(name))
		reading_fail(reading,
			"\"%.64s\" is not a valid group name: it must have " GROUP_NAME_ACCEPTED,
			name);
	else
		return true;
	return false;
}

static unsigned count_sections(const struct config_file *file, enum section_kind kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < file->n_sections; i++)
		n += file->sections[i].kind == kind;
	return n;
}

/* Whether there may be one more of that kind. */
static bool check_section_count(struct reading *reading, enum section_kind kind)
{
	unsigned max = kind == SECTION_GROUP ? GROUPS_MAX : USER_SECTIONS_MAX;

	if (count_sections(reading->file, kind) < max)
		return true;
	return reading_fail(reading, "there are more than %u sections [%s], which is the maximum",
		max, kinds[kind]);
}

/* `before': the line in which the section has begun; 0: it has not. */
static bool check_section_is_new(struct reading *reading, unsigned before)
{
	if (before > 0)
		reading_fail(reading,
			"the section has begun in line %u already: write all its keys there",
			before);
	return before == 0;
}

/* The section of that kind with the same name, or of the same user. */
static const struct config_section *find_same(
	const struct config_file *file, const struct config_section *section)
{
	return section->kind == SECTION_USER ? config_file_find_user(file, section->uid)
					     : config_file_find(file, section->kind, section->name);
}

static bool add_section(struct reading *reading, const struct config_section *section)
{
	struct config_file *file = reading->file;
	struct config_section *sections =
		reallocarray(file->sections, file->n_sections + 1, sizeof(*sections));

	if (!sections)
		return reading_fail(reading, "out of memory");
	file->sections = sections;
	sections[file->n_sections++] = *section;
	return true;
}

static bool on_section(void *arg, unsigned line, const char *text, const char *name)
{
	struct reading *reading = arg;
	struct config_section section = {.line = line};
	const struct config_section *same;

	reading->line = line;
	if (!find_kind(reading, text, &reading->kind) ||
		!check_section_name(reading, reading->kind, name))
		return false;
	if (reading->kind == SECTION_DAEMON) {
		bool is_new = check_section_is_new(reading, reading->daemon_line);

		if (is_new)
			reading->daemon_line = line;
		return is_new;
	}
	section.kind = reading->kind;
	snprintf(section.name, sizeof(section.name), "%s", name);
	settings_init(&section.settings);
	if (section.kind == SECTION_USER) {
		if (parse_user(name, &section.uid) < 0)
			return reading_fail(reading,
				"the system has no user \"%.64s\": [user NAME] takes the name of a "
				"user or a UID",
				name);
		section.has_uid = true;
	}
	same = find_same(reading->file, &section);
	return check_section_is_new(reading, same ? same->line : 0) &&
	       check_section_count(reading, section.kind) && add_section(reading, &section);
}

/* ---- entries */

static void refuse_value(struct reading *reading, const char *key, const char *value,
	const struct error_message *why)
{
	reading_fail(reading, "%s is \"%.64s\": %s", key, value, why->text);
}

/* False: the key is set for the second time. */
static bool check_first(struct reading *reading, const char *key, unsigned before)
{
	if (before > 0)
		reading_fail(reading, "%s is set in line %u already: remove one of the two lines",
			key, before);
	return before == 0;
}

static const char *section_label(const struct reading *reading, char label[GROUP_NAME_MAX + 16])
{
	const char *name = reading->kind == SECTION_DAEMON ? "" : current_section(reading)->name;

	snprintf(label, GROUP_NAME_MAX + 16, "[%s%s%s]", kinds[reading->kind], *name ? " " : "",
		name);
	return label;
}

static size_t list_keys(enum section_kind kind, const char *names[KEY_NAMES_MAX])
{
	size_t n = 0;

	if (kind == SECTION_DAEMON) {
		for (enum config_key key = 0; key < CONFIG_KEYS; key++)
			names[n++] = config_key_name(key);
		return n;
	}
	for (enum setting setting = 0; setting < SETTINGS; setting++)
		names[n++] = setting_name(setting);
	if (kind == SECTION_GROUP)
		names[n++] = KEY_UID;
	return n;
}

/* The key of an environment variable that was written instead of it, or NULL. */
static const char *find_key_of_variable(enum section_kind kind, const char *variable)
{
	for (enum config_key key = 0; kind == SECTION_DAEMON && key < CONFIG_KEYS; key++)
		if (config_key_variable(key) && strcmp(config_key_variable(key), variable) == 0)
			return config_key_name(key);
	for (enum setting setting = 0; kind != SECTION_DAEMON && setting < SETTINGS; setting++)
		if (strcmp(setting_variable(setting), variable) == 0)
			return setting_name(setting);
	return NULL;
}

static void refuse_key(struct reading *reading, const char *key)
{
	const char *names[KEY_NAMES_MAX];
	size_t n = list_keys(reading->kind, names);
	const char *nearest = find_key_of_variable(reading->kind, key);
	char label[GROUP_NAME_MAX + 16], list[512];

	section_label(reading, label);
	if (!nearest)
		nearest = nearest_word(key, names, n);
	if (nearest) {
		reading_fail(
			reading, "%s has no key \"%.64s\": did you mean %s?", label, key, nearest);
		return;
	}
	join_names(names, n, list, sizeof(list));
	reading_fail(reading, "%s has no key \"%.64s\": its keys are %s", label, key, list);
}

static void read_daemon_entry(struct reading *reading, enum config_key key, const char *value)
{
	struct config_value *entry = &reading->file->values.of[key];
	struct error_message why;

	if (!check_first(reading, config_key_name(key), entry->line))
		return;
	if (config_key_check(key, value, &why) < 0) {
		refuse_value(reading, config_key_name(key), value, &why);
		return;
	}
	entry->text = strdup(value);
	if (entry->text)
		entry->line = reading->line;
	else
		reading_fail(reading, "out of memory");
}

static void read_setting(struct reading *reading, enum setting setting, const char *value)
{
	struct config_section *section = current_section(reading);
	struct error_message why;

	if (!check_first(reading, setting_name(setting), section->lines[setting]))
		return;
	section->lines[setting] = reading->line;
	if (settings_read(&section->settings, setting, value, &why) < 0)
		refuse_value(reading, setting_name(setting), value, &why);
}

static void read_uid(struct reading *reading, const char *value)
{
	static const struct error_message why = {"it takes a UID or the name of a user"};
	struct config_section *section = current_section(reading);

	if (!check_first(reading, KEY_UID, section->uid_line))
		return;
	section->uid_line = reading->line;
	section->has_uid = true;
	if (parse_user(value, &section->uid) < 0)
		refuse_value(reading, KEY_UID, value, &why);
}

static void on_entry(void *arg, unsigned line, const char *key, const char *value)
{
	struct reading *reading = arg;

	reading->line = line;
	if (reading->kind == SECTION_DAEMON) {
		enum config_key found = config_key_find(key);

		if (found < CONFIG_KEYS)
			read_daemon_entry(reading, found, value);
		else
			refuse_key(reading, key);
		return;
	}
	for (enum setting setting = 0; setting < SETTINGS; setting++)
		if (strcmp(key, setting_name(setting)) == 0) {
			read_setting(reading, setting, value);
			return;
		}
	if (reading->kind == SECTION_GROUP && strcmp(key, KEY_UID) == 0)
		read_uid(reading, value);
	else
		refuse_key(reading, key);
}

/* ---- the file */

int config_file_init(struct config_file *file, const char *path, struct error_message *error)
{
	char here[PATH_MAX] = "";
	bool is_relative = path && *path != '/';
	int n;

	*file = (struct config_file){.is_required = path};
	/* The daemon changes its directory before it reads the file again. */
	if (is_relative && !getcwd(here, sizeof(here)))
		return error_message_set(error, -errno,
			"Cannot find %.200s: the current directory cannot be read (%s): use an "
			"absolute path",
			path, strerror(errno));
	n = snprintf(file->path, sizeof(file->path), "%s%s%s", here, is_relative ? "/" : "",
		path ? path : CONFIG_FILE_DEFAULT);
	if (n < 0 || (size_t)n >= sizeof(file->path))
		return error_message_set(error, -ENAMETOOLONG,
			"The path of the configuration file is longer than %zu bytes",
			sizeof(file->path) - 1);
	return 0;
}

void config_file_fini(struct config_file *file)
{
	for (enum config_key key = 0; key < CONFIG_KEYS; key++)
		free(file->values.of[key].text);
	file->values = (struct config_values){0};
	free(file->sections);
	file->sections = NULL;
	file->n_sections = 0;
}

int config_file_parse(
	struct config_file *file, char *text, size_t size, const struct config_report *report)
{
	struct reading reading = {.file = file, .report = report};
	const struct ini_handler handler = {on_section, on_entry, on_syntax_error, &reading};

	/* Shows whether the file has changed; 0 is no file. */
	file->hash = MAX(hash_bytes(HASH_START, text, size), 1u);
	ini_parse(text, size, &handler);
	if (reading.n_errors > ERRORS_SHOWN_MAX)
		config_report(report, "%.200s: %d more errors", file->path,
			reading.n_errors - ERRORS_SHOWN_MAX);
	return reading.n_errors;
}

int config_file_read(struct config_file *file, const struct config_report *report)
{
	_cleanup_free_ char *bytes = NULL;
	struct config_text text;
	struct error_message error;
	int r = config_text_read(file->path, &text, &error);

	if (r == -ENOENT && !file->is_required)
		return 0;
	if (r < 0) {
		config_report(report, "%s", error.text);
		return r;
	}
	bytes = text.bytes;
	if (text.warning.text[0])
		config_report(report, "warning: %s", text.warning.text);
	return config_file_parse(file, bytes, text.size, report);
}

void config_file_report_overridden(
	const struct config_file *file, const struct config_report *report)
{
	for (enum config_key key = 0; key < CONFIG_KEYS; key++)
		if (file->values.of[key].line > 0 && config_key_is_in_environment(key))
			config_report(report,
				"line %u: %s has no effect, as %s is set in the daemon's "
				"environment",
				file->values.of[key].line, config_key_name(key),
				config_key_variable(key));
}

const struct config_section *config_file_find(
	const struct config_file *file, enum section_kind kind, const char *name)
{
	for (unsigned i = 0; i < file->n_sections; i++)
		if (file->sections[i].kind == kind && strcmp(file->sections[i].name, name) == 0)
			return &file->sections[i];
	return NULL;
}

const struct config_section *config_file_find_user(const struct config_file *file, uid_t uid)
{
	for (unsigned i = 0; i < file->n_sections; i++)
		if (file->sections[i].kind == SECTION_USER && file->sections[i].uid == uid)
			return &file->sections[i];
	return NULL;
}
