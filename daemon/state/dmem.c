/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of a cgroup. Loop thread.
 *
 * Invariant: the files are the kernel's, which answers at once.
 */

#include "dmem.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "limit_text.h"
#include "daemon/text/kernel_file.h"
#include "daemon/config/devices.h"

/* One line for each GPU. */
#define DMEM_TEXT_MAX 8192

struct dmem {
	char *folder;
	char *max, *min; /* the files' texts */
	bool has_min;    /* no cgroup below it has the file */
};

void dmem_free(struct dmem *dmem)
{
	if (!dmem)
		return;
	free(dmem->folder);
	free(dmem->max);
	free(dmem->min);
	free(dmem);
}

/* ---- texts */

/* "nvidia/00000000:02:00.0/vidmem": the name of the GPU is in the middle. */
static const struct frame_device *find_region(const struct devices *devices, char *region)
{
	const struct frame_device *device;
	char *name = strchr(region, '/'), *end = name ? strchr(name + 1, '/') : NULL;

	if (!end)
		return NULL;
	*end = '\0';
	return devices_find(devices, name + 1, &device) == 0 ? device : NULL;
}

/* The next line with a number; a line without has no limit. False: there is none. */
static bool next_limit(char **text, char **ret_region, uint64_t *ret_bytes)
{
	char *line;

	while ((line = strsep(text, "\n"))) {
		*ret_region = strsep(&line, " ");
		if (line && parse_number(line, UINT64_MAX - 1, ret_bytes) == 0)
			return true;
	}
	return false;
}

/* 0 as a soft limit is the kernel's default: nothing is guaranteed, and nothing is borrowed. */
static void lower_to_text(
	const char *from, const struct devices *devices, bool is_soft, uint64_t limits[DEVICES_MAX])
{
	char copy[DMEM_TEXT_MAX], *text = copy, *region;
	uint64_t bytes;

	snprintf(copy, sizeof(copy), "%s", from);
	while (next_limit(&text, &region, &bytes)) {
		const struct frame_device *device = find_region(devices, region);

		if (device && !(is_soft && bytes == 0))
			limits[device->ordinal] = MIN(limits[device->ordinal], bytes);
	}
}

void dmem_lower(const struct dmem *dmem, const struct devices *devices, struct frame_limits *limits)
{
	lower_to_text(dmem->max, devices, false, limits->memory);
	lower_to_text(dmem->min, devices, true, limits->soft);
}

static bool has_limit(const char *from, bool is_soft)
{
	char copy[DMEM_TEXT_MAX], *text = copy, *region;
	uint64_t bytes;

	snprintf(copy, sizeof(copy), "%s", from);
	while (next_limit(&text, &region, &bytes))
		if (!(is_soft && bytes == 0))
			return true;
	return false;
}

bool dmem_is_limited(const struct dmem *dmem)
{
	return has_limit(dmem->max, false) || has_limit(dmem->min, true);
}

/* ---- files */

/* NULL: there is no file. */
static char *read_text(const char *folder, const char *name)
{
	char path[PATH_MAX + 64], text[DMEM_TEXT_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return kernel_file_read(path, text, sizeof(text)) < 0 ? NULL : strdup(text);
}

/* Replaces the text if the file is there and differs. Returns whether it has. */
static bool read_again(char **text, const char *folder, const char *name)
{
	char *read = read_text(folder, name);

	if (!read || strcmp(read, *text) == 0) {
		free(read);
		return false;
	}
	free(*text);
	*text = read;
	return true;
}

bool dmem_read_again(struct dmem *dmem)
{
	bool has_changed = read_again(&dmem->max, dmem->folder, "dmem.max");

	if (dmem->has_min)
		has_changed |= read_again(&dmem->min, dmem->folder, "dmem.min");
	return has_changed;
}

struct dmem *dmem_read(const char *folder, bool is_min_known)
{
	struct dmem *dmem = calloc(1, sizeof(*dmem));

	if (!dmem)
		return NULL;
	dmem->folder = strdup(folder);
	dmem->max = read_text(folder, "dmem.max");
	dmem->min = is_min_known ? NULL : read_text(folder, "dmem.min");
	dmem->has_min = dmem->min;
	if (!dmem->max)
		dmem->max = strdup("");
	if (!dmem->min)
		dmem->min = strdup("");
	if (dmem->folder && dmem->max && dmem->min)
		return dmem;
	dmem_free(dmem);
	return NULL;
}

bool dmem_has_min(const struct dmem *dmem)
{
	return dmem->has_min;
}
