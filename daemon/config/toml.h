/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOML_H
#define TOML_H

/*
 * A TOML file as a tree: each node is an object with its "line" and one of "table", "array" and
 * "value". main() before the loop.
 */

#include <jansson.h>

#include "daemon/text/error_message.h"

/* The caller owns the tree. NULL with an error message, which begins with the path. */
json_t *toml_read(const char *path, struct error_message *error);

#endif
