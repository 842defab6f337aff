/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names of groups. Any thread.
 */

#include "group_name.h"

#include <string.h>

#include "frame.h"

bool group_name_ok(const char *name)
{
	size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789._/-");

	return length > 0 && length < GROUP_NAME_MAX && !name[length];
}

bool group_name_is_above(const char *name, const char *path)
{
	size_t length = strlen(name);

	while (length > 0 && name[length - 1] == '/')
		length--;
	return *name == '/' && strncmp(name, path, length) == 0 &&
	       (path[length] == '/' || !path[length]);
}

char *group_name_of_cgroup(char *text)
{
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (strncmp(line, "0::/", 4) == 0)
			return line + 3;
	return NULL;
}
