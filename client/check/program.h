/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRAM_H
#define PROGRAM_H

/*
 * The program to check: its file, and whether the kernel and the commands before
 * it pass LD_PRELOAD on.
 */

#include <limits.h>

#include "elf_file.h"
#include "findings.h"

struct program {
	char path[PATH_MAX]; /* of the file that the kernel loads: for a script, its interpreter */
	struct elf_file file;
};

/*
 * Finds the program as execvp() does and follows the first lines of scripts. False: it
 * is no program that could be a client; a finding says why.
 */
bool program_open(struct program *program, char *const *command, struct findings *findings);
void program_close(struct program *program);

/* Reports why LD_PRELOAD would not reach the program. */
void program_check_preload(
	const struct program *program, char *const *command, struct findings *findings);

#endif
