/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EACH_THING_H
#define EACH_THING_H

/*
 * For programs that try many things, each in a separate process: its first use is the first in
 * that process, and its damage stays there.
 */

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver_program.h"

/* Whether the command line names it; a command line without names takes all. */
static inline int is_named(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc < 2;
}

/* 0, or 1 unless `act', which ends its process, ended it with success. */
static inline int in_a_process(
	const char *name, unsigned limit_s, void (*act)(const void *thing), const void *thing)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(limit_s);
		act(thing);
	}
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		printf("%s: ended by signal %d\n", name, WTERMSIG(status));
	return status != 0;
}

#endif
