/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_H
#define APPLY_H

/*
 * The commands of the file of -a (apply_file.h), which the daemon gives itself on a connection.
 * Other commands wait meanwhile. main(), before the loop runs by itself.
 */

#include "daemon/text/error_message.h"

struct daemon;

/*
 * Runs the loop until the commands are done, or one has failed: then -errno with an error message,
 * which has the reply.
 */
int apply_commands(struct daemon *daemon, const char *commands, struct error_message *error);

#endif
