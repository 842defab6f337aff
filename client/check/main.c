/* SPDX-License-Identifier: Apache-2.0 */

/*
 * mps-check: says whether a program would be a client of the service, and why not.
 * `mps-run --check' calls it:
 *
 *     mps-check LIBRARY LD_PRELOAD LD_LIBRARY_PATH [PROGRAM [ARGUMENT...]]
 *
 * Exit status 0: it would be a client; 1: it would not, or that is uncertain.
 */

#include <string.h>

#include "checks.h"
#include "find_cuda.h"
#include "quote.h"

/* The loader divides LD_PRELOAD at these characters. */
static void check_library_path(const char *library, struct findings *findings)
{
	struct quoted quoted;

	if (strpbrk(library, " :"))
		findings_add(findings,
			"the path of the client library, %s, has a space or a colon, at which the "
			"loader divides LD_PRELOAD: install the library in another folder",
			quote(&quoted, library));
}

static void check_program(
	const struct preload *preload, char *const *command, struct findings *findings)
{
	_cleanup_(program_close) struct program program = {0};
	char *paths;

	if (!program_open(&program, command, findings))
		return;
	program_check_preload(&program, command, findings);
	if (loader_list(&program, preload, findings, &paths))
		cuda_use_check(&program, paths, findings);
}

/* Without a program: whether the loader of this program itself accepts the library. */
static void check_loader(const struct preload *preload, struct findings *findings)
{
	static char self[] = "/proc/self/exe";
	char *const command[] = {self, NULL};
	_cleanup_(program_close) struct program program = {0};
	char *paths;

	if (!program_open(&program, command, findings))
		return;
	if (readlink(self, program.path, sizeof(program.path) - 1) > 0)
		(void)loader_list(&program, preload, findings, &paths);
}

int main(int argc, char **argv)
{
	struct findings findings = {0};
	struct quoted quoted;

	if (argc < 4) {
		fprintf(stderr, "mps-check: use mps-run --check [PROGRAM [ARGUMENT...]]\n");
		return 2;
	}
	const struct preload preload = {argv[1], argv[2], argv[3]};

	check_library_path(preload.library, &findings);
	if (argv[4])
		check_program(&preload, argv + 4, &findings);
	else
		check_loader(&preload, &findings);
	if (find_cuda_is_replaced())
		findings_note("programs of this machine need no mps-run: the loader finds the "
			      "client library first");
	service_check(preload.library, &findings);
	if (findings.n > 0)
		return 1;
	findings_note("%s would be a client", argv[4] ? quote(&quoted, argv[4]) : "a CUDA program");
	return 0;
}
