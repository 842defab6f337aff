/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

/*
 * The configuration file: the values of [daemon], and what the sections
 * [default], [user NAME] and [group NAME] set for clients.
 *
 * main() before the loop, then the loop thread; config_file_read() any thread. A file with an error
 * is never used, not even in part.
 */

#include "config.h"
#include "settings.h"
#include "daemon/text/group_name.h"

#define CONFIG_FILE_DEFAULT "/etc/mps.conf"

/* Sections of users: an operator who needs more uses the defaults. */
#define USER_SECTIONS_MAX 1024

enum section_kind {
	SECTION_DAEMON,
	SECTION_DEFAULT,
	SECTION_USER,
	SECTION_GROUP,
};

/*
 * Where the lines about a configuration file go: standard error, the reply to
 * a command, control.log. Any thread.
 */

#include "base.h"

struct config_report {
	void (*on_line)(void *arg, const char *line);
	void *arg;
};

/* Reports a line, with control characters replaced. */
void config_report(const struct config_report *report, const char *format, ...) _printf_(2, 3);

/* A section other than [daemon]. */
struct config_section {
	enum section_kind kind;
	unsigned line;
	char name[GROUP_NAME_MAX]; /* as in the file; "" for [default] */
	bool has_uid;              /* [user]: always; [group]: only clients of `uid' */
	uid_t uid;
	unsigned uid_line;
	struct settings settings; /* only what the section sets */
	unsigned lines[SETTINGS]; /* 0: not set */
};

struct config_file {
	char path[PATH_MAX]; /* absolute; "": none */
	bool is_required;    /* -c: it is an error if the file is missing */
	struct config_values values;
	struct config_section *sections;
	unsigned n_sections;
	uint64_t hash; /* of the text; 0: there is no file */
};

/* `path' may be NULL: the default. 0, or -errno with an error message. */
int config_file_init(struct config_file *file, const char *path, struct error_message *error);
void config_file_fini(struct config_file *file);

/*
 * Reads the file, and asks the system for names of users, which may take long. Without a file at
 * the default path nothing is set. Returns the number of errors, or -errno where the file cannot be
 * read; all are reported. The front end, which only needs to find the daemon, can use a file with
 * errors: lines with errors set nothing.
 */
int config_file_read(struct config_file *file, const struct config_report *report);

/* The same with the file's text, which is changed; a NUL follows it. */
int config_file_parse(
	struct config_file *file, char *text, size_t size, const struct config_report *report);

/* Reports the lines of [daemon] that have no effect, as the environment has another value. */
void config_file_report_overridden(
	const struct config_file *file, const struct config_report *report);

/* The section, or NULL. */
const struct config_section *config_file_find(
	const struct config_file *file, enum section_kind kind, const char *name);
const struct config_section *config_file_find_user(const struct config_file *file, uid_t uid);

#endif
