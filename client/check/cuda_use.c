/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks for CUDA in files that the program loads. Main thread.
 *
 * Invariant: what a file loads at run time is unknown here, so a file that can load
 * others may use CUDA.
 */

#include <string.h>

#include "checks.h"
#include "quote.h"

struct use {
	struct findings *findings;
	bool uses_cuda;
	bool loads_others;
};

static void look_at(struct use *use, const struct elf_file *file, const char *path)
{
	struct quoted quoted;

	quote(&quoted, path);
	if (elf_file_contains(file, "libcuda.so") || elf_file_contains(file, "libcudart.so"))
		use->uses_cuda = true;
	if (elf_file_imports(file, "dlopen") || elf_file_imports(file, "dlmopen"))
		use->loads_others = true;
	if (elf_file_defines(file, "cuInit")) {
		use->uses_cuda = true;
		findings_add(use->findings,
			"%s contains the CUDA driver API itself (cuInit): link it with the shared "
			"libcuda.so.1 instead",
			quoted.text);
	}
	if (deepbind_is_used(file))
		findings_add(use->findings,
			"%s loads libraries with RTLD_DEEPBIND: such a library bypasses the client "
			"library if it opens the driver by a path: let it open \"libcuda.so.1\"",
			quoted.text);
}

static void look_at_path(struct use *use, const char *path)
{
	_cleanup_(elf_file_close) struct elf_file file;

	if (elf_file_open(&file, path) == 0)
		look_at(use, &file, path);
}

void cuda_use_check(const struct program *program, char *paths, struct findings *findings)
{
	struct use use = {.findings = findings};
	struct quoted quoted;
	char *rest = NULL;

	look_at(&use, &program->file, program->path);
	for (char *path = strtok_r(paths, "\n", &rest); path; path = strtok_r(NULL, "\n", &rest))
		look_at_path(&use, path);
	quote(&quoted, program->path);
	if (use.uses_cuda)
		return;
	if (use.loads_others)
		findings_note("%s does not use CUDA itself; libraries that it loads later would "
			      "use the client library",
			quoted.text);
	else
		findings_add(findings,
			"%s does not use CUDA: if it starts other programs, check those",
			quoted.text);
}
