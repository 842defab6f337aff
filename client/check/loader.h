/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOADER_H
#define LOADER_H

/*
 * Which files the program's loader would load, with the variables of mps-run.
 */

#include "findings.h"
#include "program.h"

/* What mps-run sets. */
struct preload {
	const char *library;      /* the client library */
	const char *preload;      /* LD_PRELOAD */
	const char *library_path; /* LD_LIBRARY_PATH */
};

/*
 * Asks the loader, which lists the files and does not run the program. True: the client
 * library is among them, and `*ret_paths' has the other files' paths, one per line, without
 * libc's own files; it stays valid until the next call. False: a finding says why.
 */
bool loader_list(const struct program *program, const struct preload *preload,
	struct findings *findings, char **ret_paths);

#endif
