/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs a fuzzer's function over the named files, or over the files of the named folders: the
 * corpus as a test, without libFuzzer. Without an argument, test_fuzz_X runs over
 * tests/fuzz/corpus/X, and over the seeds that tests/fuzz/seeds.py has made for it in the build
 * that MPS_BUILD names.
 */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_passed, n_failed;

static void replay_file(const char *path)
{
	FILE *file = fopen(path, "rbe");
	struct stat st;
	uint8_t *data;

	if (!file || fstat(fileno(file), &st) < 0) {
		perror(path);
		n_failed++;
		if (file)
			fclose(file);
		return;
	}
	data = malloc((size_t)st.st_size + 1);
	if (data && fread(data, 1, (size_t)st.st_size, file) == (size_t)st.st_size) {
		LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
		n_passed++;
	} else {
		n_failed++;
	}
	free(data);
	fclose(file);
}

static void replay_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char name[4096];

		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.')
			replay_file(name);
	}
	if (dir)
		closedir(dir);
}

static void replay_own(void)
{
	const char *name = strstr(program_invocation_short_name, "fuzz_");
	const char *build = getenv("MPS_BUILD");
	char path[4096];

	if (!name)
		return;
	name += strlen("fuzz_");
	snprintf(path, sizeof(path), "tests/fuzz/corpus/%s", name);
	replay_folder(path);
	if (!build)
		return;
	snprintf(path, sizeof(path), "%s/fuzz/seeds/%s", build, name);
	replay_folder(path);
}

int main(int argc, char **argv)
{
	struct stat st;

	if (argc == 1)
		replay_own();

	for (int i = 1; i < argc; i++) {
		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
			replay_folder(argv[i]);
		else
			replay_file(argv[i]);
	}
	printf("%u passed, %u failed\n", n_passed, n_failed);
	return n_failed != 0;
}
