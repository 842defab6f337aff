/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The names and descriptions of all results are those of driver 580, compared by a digest
 * that was taken from an H200's driver (580.159.04). `--print' prints them instead, for a
 * comparison line by line. A driver of another version may know other results, so then
 * nothing is compared.
 */

#include <stdint.h>
#include <string.h>

#define NAME "result_texts"
#include "../helpers/driver_program.h"

#define DRIVER_VERSION 13000
#define DIGEST 0x5b30a66f302265b4u

/* The largest result: CUDA_ERROR_UNKNOWN. */
#define LAST 999

/* FNV-1a. */
static uint64_t add(uint64_t digest, const char *text)
{
	for (; *text; text++)
		digest = (digest ^ (uint8_t)*text) * 0x100000001b3u;
	return digest;
}

/* An empty line for a result that the driver does not know. */
static void write_line(int number, char *line, size_t size)
{
	const char *name = "", *text = "";
	CUresult has_name = cuGetErrorName((CUresult)number, &name);
	CUresult has_text = cuGetErrorString((CUresult)number, &text);

	MUST(has_name == has_text);
	if (has_name == CUDA_SUCCESS) {
		snprintf(line, size, "%d %s: %s\n", number, name, text);
		return;
	}
	MUST(has_name == CUDA_ERROR_INVALID_VALUE && !name && !text);
	line[0] = '\0';
}

int main(int argc, char **argv)
{
	int is_printed = argc == 2 && !strcmp(argv[1], "--print"), version;
	uint64_t digest = 0xcbf29ce484222325u;

	CHECK(cuInit(0));
	CHECK(cuDriverGetVersion(&version));
	for (int number = 0; number <= LAST + 1; number++) {
		char line[256];

		write_line(number, line, sizeof(line));
		digest = add(digest, line);
		if (is_printed)
			fputs(line, stdout);
	}
	MUST(version != DRIVER_VERSION || digest == DIGEST);
	printf(NAME ": ok\n");
	return 0;
}
