/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libstdc++ demangles, by a part of it that is C and calls only the C library. Any thread.
 *
 * Invariant: a name costs at most what its first DEMANGLED_MAX bytes cost, because a short name
 * can stand for gigabytes: a search found no name of 255 bytes that takes 60 us. Its recursion is
 * bounded by the length of the name, which is bounded here.
 */

#include "demangle.h"

#include <setjmp.h>
#include <string.h>

/* Longer names are not demangled: clients' names of kernels have at most 255 bytes. */
#define MANGLED_MAX 1024

/*
 * No header has this function, and only the static library. NULL: the program was linked without
 * it. Passes the text piece by piece, and returns 0; else the name is malformed.
 */
__attribute__((weak)) int __gcclibcxx_demangle_callback(
	const char *name, void (*on_text)(const char *text, size_t size, void *arg), void *arg);

struct output {
	struct demangled *demangled;
	size_t used;
	jmp_buf is_full;
};

static void put(const char *text, size_t size, void *arg)
{
	struct output *output = arg;
	char *to = output->demangled->text + output->used;
	size_t space = DEMANGLED_MAX - sizeof("...") - output->used;

	memcpy(to, text, MIN(size, space));
	output->used += MIN(size, space);
	/* The function cannot be told to stop. It has no memory but its stack. */
	if (size > space)
		longjmp(output->is_full, 1);
}

/* `name' is volatile because it is read after setjmp() returns again. */
const char *demangle(struct demangled *demangled, const char *volatile name)
{
	struct output output = {.demangled = demangled};

	if (!__gcclibcxx_demangle_callback || strncmp(name, "_Z", 2) != 0 ||
		strlen(name) > MANGLED_MAX)
		return name;
	if (setjmp(output.is_full))
		memcpy(demangled->text + output.used, "...", sizeof("..."));
	else if (__gcclibcxx_demangle_callback(name, put, &output) == 0)
		demangled->text[output.used] = '\0';
	else
		return name;
	return demangled->text;
}
