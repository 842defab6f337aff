/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EARLIER_SERVERS_H
#define EARLIER_SERVERS_H

/*
 * What `ps' says about servers of an earlier build or version, which an upgrade has left with
 * clients (upgrade.h, released.h). Loop thread.
 */

#include "daemon/text/json.h"

struct conn;

/* A line for each that the connection's user sees; nothing if there is none. */
void earlier_servers_reply(struct conn *conn);

/* The same as a list. */
json_t *earlier_servers_json(const struct conn *conn);

#endif
