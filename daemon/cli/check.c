/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks a configuration file as the daemon does, and the pipe directory. main() only.
 *
 * Invariant: a file that passes here starts the daemon of the same user on the
 * same machine, as far as the file decides that. The check of the directory leaves nothing but the
 * lock file, which no other user can open.
 */

#include "check.h"

#include <stdio.h>
#include <string.h>

#include "daemon/config/config_file.h"
#include "daemon/conn/listener.h"
#include "daemon/watch/exporter.h"

void check_config_print(_unused_ void *arg, const char *line)
{
	fprintf(stderr, "mps-control: %s\n", line);
}

static bool wants_metrics(const struct config_file *file)
{
	const char *address = file->values.of[CONFIG_METRICS_LISTEN].text;

	return address && strcmp(address, "off") != 0;
}

int check_config_run(const char *path, char *const *arguments)
{
	const struct config_report report = {check_config_print, NULL};
	struct error_message error;
	struct config_file file;
	int r;

	if (arguments[0] && (arguments[1] || path)) {
		fputs("mps-control: check-config takes one file: check-config [FILE]\n", stderr);
		return EXIT_FAILURE;
	}
	if (config_file_init(&file, arguments[0] ? arguments[0] : path, &error) < 0) {
		check_config_print(NULL, error.text);
		return EXIT_FAILURE;
	}
	r = config_file_read(&file, &report);
	/* No error of the file: the daemon works without. */
	if (wants_metrics(&file) && exporter_check(&error) < 0)
		check_config_print(NULL, error.text);
	if (r == 0 && file.hash == 0)
		printf("%s: there is no such file: the defaults apply\n", file.path);
	else if (r == 0)
		printf("%s: no errors\n", file.path);
	else if (r > 0)
		fprintf(stderr, "mps-control: %s: %d error%s\n", file.path, r, r > 1 ? "s" : "");
	config_file_fini(&file);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int check_directory_run(const struct config *config, char *const *arguments)
{
	struct error_message error;
	int r;

	if (arguments[0]) {
		fputs("mps-control: check-directory takes no argument\n", stderr);
		return EXIT_FAILURE;
	}
	r = listener_check(config, &error);
	if (r == LISTENER_TAKEN)
		fprintf(stderr,
			"mps-control: Another daemon has the directory %s: end it first "
			"(mps-control quit)\n",
			config->pipe_directory);
	else if (r < 0)
		fprintf(stderr, "mps-control: %s\n", error.text);
	else
		printf("%s: no daemon has it\n", config->pipe_directory);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
