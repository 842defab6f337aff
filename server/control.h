/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTROL_H
#define CONTROL_H

/*
 * The link to the control daemon. Clients come over it. When it is lost, no new clients
 * come, and the server looks for a new daemon every second. Loop thread.
 */

#include <uv.h>

#include "bounds.h"
#include "frame.h"
#include "frame_queue.h"

struct control {
	char path[SOCKET_PATH_MAX + 1];
	int sock; /* -EBADF: there is no daemon */
	uv_poll_t poll;
	uv_timer_t retry;
	bool is_reading;  /* the server accepts clients */
	bool is_closing;  /* the poll handle is closing */
	bool is_finished; /* permanently */
	uint64_t lost_ms; /* when the daemon was lost, by the loop's clock */
	int loss;         /* why, as a negative errno; 0: it is in the log */
	struct frame_reader reader;
	struct frame_queue out; /* empty without a daemon */
};

struct server;

/*
 * Connects to the daemon that started this server and sends the hello. 0 or -errno; the
 * reason is in the log.
 */
int control_init(struct control *control);

/* After the loop exists: watches for the end of the daemon. */
void control_open(struct server *server);

/* From now on reads clients and orders. */
void control_read(struct server *server);

/* Sends the frames that wait, as control_drain() does, and closes the handles in the loop. */
void control_close(struct server *server);

/*
 * Sends a frame to the daemon, if there is one. Never blocks: a frame that the socket does not
 * take waits, and the daemon gets all frames in their order.
 */
void control_send(struct server *server, const void *frame);

/* Before the process ends: waits, for a second at most, until all frames were sent. */
void control_drain(struct server *server);

static inline bool control_has_daemon(const struct control *control)
{
	return control->sock >= 0;
}

#endif
