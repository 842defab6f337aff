/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program that opens the driver by given names: it opens each library and prints the result
 * of its cuInit().
 *
 *   opener [--by PLUGIN] NAME...
 *
 * With --by, another library opens them, which is loaded without access to preloaded symbols: this
 * file with -DPLUGIN. With -DDECOY, this file is a library to be opened.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#if defined(DECOY)

int cuInit(unsigned flags)
{
	return 42 + (int)flags;
}

#else

void *open_library(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

#if !defined(PLUGIN)

static void *(*open_by)(const char *name) = open_library;

static int open_and_call(const char *name)
{
	void *library = open_by(name);
	int (*function)(unsigned flags);

	if (!library) {
		printf("%s: %s\n", name, dlerror());
		return 1;
	}
	*(void **)&function = dlsym(library, "cuInit");
	printf("%s: %d\n", name, function ? function(0) : -1);
	return 0;
}

int main(int argc, char **argv)
{
	int i = 1;

	if (argc > 2 && strcmp(argv[1], "--by") == 0) {
		void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND);

		if (!plugin) {
			printf("%s\n", dlerror());
			return 1;
		}
		*(void **)&open_by = dlsym(plugin, "open_library");
		i = 3;
	}
	for (; i < argc; i++)
		if (open_and_call(argv[i]) != 0)
			return 1;
	return 0;
}

#endif
#endif
