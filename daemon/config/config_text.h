/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

/*
 * The bytes of the configuration file, and whether they are to be trusted: who
 * can write the file decides what the daemon does. main() and the loop thread.
 */

#include "daemon/text/error_message.h"

/* A file with a thousand users has a tenth of it. */
#define CONFIG_FILE_MAX (1u << 20)

struct config_text {
	char *bytes; /* a NUL follows; the caller frees them */
	size_t size;
	struct error_message warning; /* ""; else what is wrong with the permissions */
};

/*
 * Reads the file. A daemon of root refuses a file that another user can write;
 * for another user that is a warning. 0, -ENOENT or -errno, with an error
 * message that begins with the path.
 */
int config_text_read(const char *path, struct config_text *ret, struct error_message *error);

#endif
