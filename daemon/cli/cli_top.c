/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command top in the front end. main() only.
 */

#include "cli_top.h"

#include <stdio.h>
#include <string.h>

#include "daemon/text/directory.h"

int cli_top_run(const struct config *config, char *const *command)
{
	/* The name before its messages; getopt_long() reorders the rest. */
	char **arguments = (char **)command, name[] = "mps-control: top";
	char path[PATH_MAX];

	directory_find_beside((const char *const[]){"mps-top", NULL}, path);
	arguments[0] = name;
	if (setenv("CUDA_MPS_PIPE_DIRECTORY", config->pipe_directory, 1) == 0)
		execv(path, arguments);
	fprintf(stderr, "%s: cannot execute %s: %s: install it beside mps-control\n", name, path,
		strerror(errno));
	return EXIT_FAILURE;
}
