/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_NAME_H
#define SERVER_NAME_H

/*
 * Names of servers and of namespaces in protocol 3, which are names of directories, too. Any
 * thread.
 */

#include <string.h>

#include "base.h"

/* With its NUL. */
#define SERVER_NAME_MAX 65

#define SERVER_NAME_ACCEPTED "1 to 64 lower-case letters, digits and _"

static inline bool server_name_ok(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return length > 0 && length < SERVER_NAME_MAX && !name[length];
}

/* Whether the directory of the daemon, of a server or of both has a file of that name. */
static inline bool server_name_is_taken(const char *name)
{
	return strncmp(name, "control", strlen("control")) == 0 || strcmp(name, "log") == 0;
}

#endif
