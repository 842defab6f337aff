/* SPDX-License-Identifier: Apache-2.0 */
#ifndef METRICS_SERVER_H
#define METRICS_SERVER_H

/*
 * Answers GET /metrics over HTTP. libmicrohttpd runs without threads of its own: the loop
 * watches its epoll descriptor.
 *
 * Loop thread. Peers are hostile: each connection has a deadline and makes one request; their
 * number is bounded, and all requests within a second get the same page.
 */

#include "daemon/text/error_message.h"

struct daemon;

/*
 * Listens on that address from now on, and no longer on an earlier one; "": on none. 0, or
 * -errno with an error message; then the daemon listens on none.
 */
int metrics_server_listen(struct daemon *daemon, const char *address, struct error_message *error);

/* Ends the listener, if there is one. */
void metrics_server_close(struct daemon *daemon);

/* The servers have replied to counting_ask(). */
void metrics_server_on_counters(struct daemon *daemon);

#endif
