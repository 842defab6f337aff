/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENDPOINT_H
#define ENDPOINT_H

/*
 * The socket of a namespace, with its directory DIRECTORY/SERVER/NAME. The server's own directory
 * has another name of the socket of `default'. Loop thread.
 *
 * The directories stay when the daemon ends: a container that has one mounted finds the socket of
 * the next daemon there.
 */

#include "daemon/text/error_message.h"

struct daemon;
struct endpoint;

/*
 * At the start, when the namespaces of the previous daemon are there again: removes sockets of
 * others, with their directories, which a daemon has left that died before it had recorded them.
 */
void endpoints_remove_stale(struct daemon *daemon);

/*
 * Makes the directories and listens; `entry' is that of the connections. 0 or -errno with an error
 * message.
 */
int endpoint_open(struct daemon *daemon, const char *server, const char *name, uint32_t entry,
	struct endpoint **ret_endpoint, struct error_message *error);

/* Removes the socket; `is_forgotten': its directories, too, as far as they are empty. */
void endpoint_close(struct endpoint *endpoint, bool is_forgotten);

#endif
