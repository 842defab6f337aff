/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks the pipe directory. main() only.
 *
 * Invariant: the check leaves nothing but the lock file, which no other user
 * can open.
 */

#include "check_directory.h"

#include <stdio.h>

#include "daemon/conn/listener.h"

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
