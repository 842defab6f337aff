/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_FILE_H
#define APPLY_FILE_H

/*
 * The file of -a: named servers and their namespaces, in the vendor's form (TOML). It becomes
 * commands of protocol 3, one a line. main() before the loop.
 */

#include "daemon/text/error_message.h"

/* The caller frees the text. NULL with an error message, which has the path and the line. */
char *apply_file_read(const char *path, struct error_message *error);

#endif
