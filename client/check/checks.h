/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECKS_H
#define CHECKS_H

/* What `mps-run --check' checks, beside the program itself. */

#include "findings.h"
#include "program.h"

/* What mps-run sets. */
struct preload {
	const char *library;      /* the client library */
	const char *preload;      /* LD_PRELOAD */
	const char *library_path; /* LD_LIBRARY_PATH */
};

/*
 * loader.c: asks the program's loader, which lists the files and does not run the program. True:
 * the client library is among them, and `*ret_paths' has the other files' paths, one per line,
 * without libc's own files; it stays valid until the next call. False: a finding says why.
 */
bool loader_list(const struct program *program, const struct preload *preload,
	struct findings *findings, char **ret_paths);

/*
 * cuda_use.c: reports use of CUDA that bypasses the client library, or that there is none.
 * Overwrites `paths', the other files that the program loads, one per line.
 */
void cuda_use_check(const struct program *program, char *paths, struct findings *findings);

/*
 * deepbind.c: whether the machine code of the file calls dlopen() with a constant that contains
 * RTLD_DEEPBIND. A flag that the program computes, and code for other processors than
 * x86-64, is not seen.
 */
bool deepbind_is_used(const struct elf_file *file);

/*
 * service.c: whether a daemon would serve a program with the client library. Connects to the
 * daemon and tells it the version of the library, but starts no server.
 */
void service_check(const char *library, struct findings *findings);

#endif
