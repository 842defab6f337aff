/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens the real libcuda by its real path, never this library itself. Runs once,
 * before other threads can see `real'.
 */

#include "real.h"

#include <limits.h>
#include <stdio.h>

#include "dlopen.h"
#include "find_cuda.h"
#include "frame.h"
#include "spec_hash.h"
#include "client/util/compat.h"
#include "client/util/log.h"

struct cuda_api real;

#define TEXT_OF(macro) TEXT_OF_WORD(macro)
#define TEXT_OF_WORD(word) #word

/*
 * The search for the real libcuda recognises this library by this note, under any name and path.
 * The contents are a struct find_cuda_note.
 */
__asm__(".pushsection .note.mps, \"a\", @note\n"
	".balign 4\n"
	".long 2f - 1f\n"
	".long 4f - 3f\n"
	".long 1\n"
	"1: .asciz \"" FIND_CUDA_NOTE_NAME "\"\n"
	"2: .balign 4\n"
	"3: .long " TEXT_OF(FRAME_VERSION) ", 0\n"
					   ".quad " SPEC_HASH_TEXT "\n"
					   "4:\n"
					   ".popsection");

static void *real_symbol(void *handle, const char *name)
{
	return dlsym(handle, name);
}

int real_open(char *why, size_t why_size)
{
	char path[PATH_MAX], tried[FIND_CUDA_WHY_MAX];
	static void *handle;
	dlopen_fn *next;
	int r;

	if (handle)
		return 0;
	r = find_cuda(path, sizeof(path), tried, sizeof(tried));
	if (r < 0) {
		snprintf(why, why_size, "%s. Tried: %s", find_cuda_advice(), tried);
		return r;
	}
	next = dlopen_next();
	if (!next || !dlerror) {
		snprintf(why, why_size, "cannot open %s: the program has no dlopen()", path);
		return -ENOENT;
	}
	handle = next(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(why, why_size, "%s", dlerror());
		return -ENOENT;
	}
	cuda_api_load(&real, handle, real_symbol);
	log_info("opened %s", path);
	return 0;
}
