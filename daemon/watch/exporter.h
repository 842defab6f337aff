/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_H
#define EXPORTER_H

/*
 * mps-exporter, which answers HTTP requests for the metrics. The daemon binds the address, starts
 * the program, and starts it again when it ends. The program runs as the user `mps', or as the
 * daemon's own user where there is no such user, and can ask the daemon only for the page.
 * Loop thread.
 */

#include <sys/types.h>

#include "daemon/text/error_message.h"

struct daemon;

/*
 * Listens on that address from now on, and no longer on an earlier one; "": on none. 0, or
 * -errno with an error message; then the daemon listens on none.
 */
int exporter_listen(struct daemon *daemon, const char *address, struct error_message *error);

/* Whether the program can run: else -errno, and what is missing. Runs it for some milliseconds. */
int exporter_check(struct error_message *error);

/* Ends the listener and the program, if there are any. */
void exporter_close(struct daemon *daemon);

/* Whether it is the program: then libuv waits for its end. */
bool exporter_has_pid(const struct daemon *daemon, pid_t pid);

#endif
