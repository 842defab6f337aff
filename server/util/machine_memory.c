/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The memory of the machine and of cgroups, version 1 and 2. Any thread.
 *
 * Invariant: a file that is missing or contains no number sets no limit.
 */

#include "machine_memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

static uint64_t read_meminfo(const char *root, const char *format)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[PATH_MAX], line[256];
	unsigned long long kib = 0;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, format, &kib) == 1)
			break;
	return kib << 10;
}

static uint64_t read_limit(const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	unsigned long long limit;

	return file && fscanf(file, "%llu", &limit) == 1 ? limit : UINT64_MAX;
}

/*
 * The lowest limit of a cgroup and its ancestors. In a container the path may be the host's,
 * of which only the top exists.
 */
static uint64_t machine_memory_read_limits(
	const char *root, const char *mount, const char *name, char *cgroup)
{
	uint64_t least = UINT64_MAX, limit;
	char path[PATH_MAX], *end;

	for (;;) {
		snprintf(path, sizeof(path), "%s%s%s/%s", root, mount, cgroup, name);
		limit = read_limit(path);
		least = MIN(least, limit);
		end = strrchr(cgroup, '/');
		if (!end)
			return least;
		*end = '\0';
	}
}

/* Lines of /proc/self/cgroup are "0::/PATH" for version 2, "N:memory:/PATH" for version 1. */
static uint64_t read_cgroups(const char *root)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[PATH_MAX], line[PATH_MAX];
	uint64_t least = UINT64_MAX, limit;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':'), *cgroup;

		cgroup = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!cgroup)
			continue;
		*cgroup++ = '\0';
		cgroup[strcspn(cgroup, "\n")] = '\0';
		limit = UINT64_MAX;
		if (strcmp(controllers, ":") == 0)
			limit = machine_memory_read_limits(
				root, "/sys/fs/cgroup", "memory.max", cgroup);
		else if (strcmp(controllers, ":memory") == 0)
			limit = machine_memory_read_limits(
				root, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", cgroup);
		least = MIN(least, limit);
	}
	return least;
}

uint64_t machine_memory(const char *root)
{
	uint64_t total = read_meminfo(root, "MemTotal: %llu kB"), limit = read_cgroups(root);

	return total > 0 ? MIN(total, limit) : limit < UINT64_MAX ? limit : 0;
}

uint64_t machine_memory_free(const char *root)
{
	return MIN(read_meminfo(root, "MemAvailable: %llu kB"), read_cgroups(root));
}
