/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OWN_MEMORY_H
#define OWN_MEMORY_H

/* The process's private memory. */

#include <malloc.h>
#include <string.h>

#include "driver_program.h"

/* In KiB, without freed memory. */
static inline long own_memory_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long kib = 0;

	MUST(file != NULL);
	malloc_trim(0);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "RssAnon:", 8))
			kib = strtol(line + 8, NULL, 10);
	fclose(file);
	return kib;
}

#endif
