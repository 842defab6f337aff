/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTROL_H
#define CONTROL_H

/*
 * The link to the control daemon. Clients come over it, and it may be lost:
 * then nobody new comes, and a new daemon is looked for every second. Loop
 * thread.
 */

#include <uv.h>

#include "frame.h"
#include "bounds.h"

struct control {
	char path[SOCKET_PATH_MAX + 1];
	int sock; /* -EBADF: there is no daemon */
	uv_poll_t poll;
	uv_timer_t retry;
	bool is_reading;  /* clients are wanted */
	bool is_closing;  /* the poll handle is on its way out */
	bool is_finished; /* for good */
	uint64_t lost_ms; /* when the daemon was lost, by the loop's clock */
	struct frame_reader reader;
};

struct server;

/* Finds and greets the daemon that started us. 0 or -errno; the log has been told. */
int control_init(struct control *control);

/* After the loop is there: notices when the daemon goes. */
void control_open(struct server *server);

/* From now on clients and orders are read. */
void control_read(struct server *server);

/* Closes what the loop holds of it. */
void control_close(struct server *server);

/* Tells the daemon; nothing happens if there is none. Never blocks. */
void control_send(struct server *server, const void *frame);

static inline bool control_has_daemon(const struct control *control)
{
	return control->sock >= 0;
}

#endif
