/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONN_KIND_H
#define CONN_KIND_H

/* What a connection to the control socket is: see conn.h. */
enum conn_kind {
	CONN_NEW,
	CONN_QUEUED, /* will give commands; waits until another one of its account ends */
	CONN_COMMAND,
	CONN_CLIENT,
	CONN_HANDED_OVER, /* a client that is being sent to its server */
	CONN_SERVER,
	CONN_CLOSED,
};

#define CONN_KINDS (CONN_CLOSED + 1)

#endif
