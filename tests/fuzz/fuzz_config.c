/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: the configuration file. Each line is said to be wrong at most once,
 * what is said is safe to print, and what is kept is within its limits.
 */

#include <pwd.h>
#include <string.h>

#include "../../daemon/config/config_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

/* Instead of the system's, which would read /etc/passwd each time. */
int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size,
	struct passwd **ret_found)
{
	(void)buffer;
	(void)size;
	*entry = (struct passwd){.pw_uid = 1000};
	*ret_found = strcmp(name, "alice") == 0 ? entry : NULL;
	return 0;
}

static int n_lines;

static void on_line(_unused_ void *arg, const char *line)
{
	for (const char *at = line; *at; at++)
		must((unsigned char)*at >= ' ' && *at != 0x7f);
	must(strncmp(line, "/c:", 3) == 0);
	n_lines++;
}

static void check_section(const struct config_section *section)
{
	const struct settings *settings = &section->settings;

	must(section->line > 0 && (section->kind == SECTION_DEFAULT) == !section->name[0]);
	must(settings->active_threads <= ACTIVE_THREADS_ALL);
	must(settings->priority >= -1 && settings->priority <= PRIORITY_MAX);
	must(settings->n_memory <= DEVICES_MAX);
	for (unsigned i = 0; i < settings->n_memory; i++)
		must(device_name_ok(settings->memory[i].device) && settings->memory[i].bytes > 0);
}

static void check_file(const struct config_file *file)
{
	struct error_message error;
	struct config *config = calloc(1, sizeof(*config));

	must(config);
	for (unsigned i = 0; i < file->n_sections; i++)
		check_section(&file->sections[i]);
	for (enum config_key key = 0; key < CONFIG_KEYS; key++)
		must(!file->values.of[key].text == !file->values.of[key].line);
	/* A file without an error starts the daemon, as far as it decides that. */
	must(config_load(config, &file->values, &error) == 0);
	free(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct config_report report = {on_line, NULL};
	struct config_file file = {.path = "/c"};
	char *text = malloc(size + 1);
	int n_errors;

	must(text);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	clearenv();
	n_lines = 0;
	n_errors = config_file_parse(&file, text, size, &report);
	must((n_errors == 0) == (n_lines == 0) && n_lines <= n_errors);
	if (n_errors == 0)
		check_file(&file);
	config_file_fini(&file);
	free(text);
	return 0;
}
