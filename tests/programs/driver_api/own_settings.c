/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program that changes the settings of its process after its first call.
 *
 *     own_settings moved    changes its environment and its folder; after a line on standard input,
 *                           uses a GPU for the first time
 *     own_settings comma    uses the locale of its environment, whose decimal point is a comma
 *     own_settings stack    its threads have small stacks; a host function needs a larger one
 *
 * Builds with: -Wno-deprecated-declarations
 * Runs: for a test of its own
 */

#define NAME "own_settings"

#include <locale.h>
#include <unistd.h>

#include "../helpers/graph_driver.h"

static void move(void)
{
	char line[8];

	CHECK(cuInit(0));
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/nowhere", 1);
	setenv("MPS_GROUP", "no name of a group", 1);
	must(chdir("/") == 0, "another folder", __LINE__);
	printf("ready\n");
	fflush(stdout);
	must(fgets(line, sizeof(line), stdin) != NULL, "a line", __LINE__);
	setup();
}

static void use_stack(void *arg)
{
	volatile char bytes[700 << 10];
	FILE *name = fopen("/proc/thread-self/comm", "re");

	for (size_t i = 0; i < sizeof(bytes); i += 1024)
		bytes[i] = 1;
	must(name && fgets(arg, 16, name) != NULL, "the thread's name", __LINE__);
	fclose(name);
}

static void comma(void)
{
	setlocale(LC_ALL, "");
	must(strcmp(localeconv()->decimal_point, ",") == 0, "a comma", __LINE__);
	setup();
	CHECK(cuParamSetf(mad, 0, 1.5f));
}

static void stack(void)
{
	char name[16] = "";

	setup();
	CHECK(cuLaunchHostFunc(stream, use_stack, name));
	CHECK(cuStreamSynchronize(stream));
	must(strcmp(name, "mps-host\n") == 0, "mps-host", __LINE__);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (strcmp(mode, "moved") == 0)
		move();
	else if (strcmp(mode, "comma") == 0)
		comma();
	else
		stack();
	return finish();
}
