/* SPDX-License-Identifier: Apache-2.0 */

/* TOML files. main() before the loop. */

#include "toml.h"

#include <stdio.h>
#include <string.h>

/* toml_parse.cpp */
json_t *toml_parse(const char *path, char *error, size_t size);

#ifndef MPS_TOML
json_t *toml_parse(_unused_ const char *path, char *error, size_t size)
{
	snprintf(error, size, "this program was built without libtomlplusplus-dev, which reads it");
	return NULL;
}
#endif

json_t *toml_read(const char *path, struct error_message *error)
{
	char why[256] = "";
	json_t *tree;

	if (access(path, R_OK) < 0) {
		error_message_set(error, -errno, "%.200s: %s", path, strerror(errno));
		return NULL;
	}
	tree = toml_parse(path, why, sizeof(why));
	if (!tree)
		error_message_set(error, -EINVAL, "%.200s: %s", path,
			*why ? why : "there is not enough memory");
	return tree;
}
