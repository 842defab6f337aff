/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DAEMON_LINK_H
#define DAEMON_LINK_H

/*
 * The link to the control daemon. Clients come over it. When it is lost, no new clients
 * come, and the server looks for a new daemon every second. Loop thread.
 */

#include <stdbool.h>
#include <uv.h>

struct frame_reader;
struct server;

/* What the link calls. */
struct daemon_link_ops {
	/* The daemon has sent this frame. 0 or -EBADMSG. */
	int (*on_order)(struct server *server, struct frame_reader *reader);

	/* The daemon reads neither what was sent nor what is sent now. */
	void (*on_lost)(struct server *server);

	/* Another daemon has been found, and has got the hello. */
	void (*on_found)(struct server *server);

	/* None listens on that path. The last one was lost at that time by the loop's clock. */
	void (*on_missing)(struct server *server, const char *path, uint64_t lost_ms);
};

/*
 * Connects to the daemon that started this server and sends the hello. 0 or -errno; the
 * reason is in the log.
 */
int daemon_link_init(void);

/* After the loop exists: watches for the end of the daemon. */
void daemon_link_open(uv_loop_t *loop, const struct daemon_link_ops *ops, struct server *server);

/* From now on reads clients and orders. */
void daemon_link_read(void);

/* Reads nothing until daemon_link_read(). */
void daemon_link_hold(void);

/*
 * After a fault clients and shutdowns stay unread, unless clients of this server wait for its
 * successor, which the daemon tells of behind them.
 */
void daemon_link_await_successor(bool awaits);

/* Whether the daemon's socket has taken every frame. */
bool daemon_link_is_flushed(void);

/* The server ends: looks for no other daemon. `force': reads no further client either. */
void daemon_link_stop(bool force);

/* Sends the frames that wait, as daemon_link_drain() does, and closes the handles in the loop. */
void daemon_link_close(void);

/* After the loop. */
void daemon_link_fini(void);

/*
 * Sends a frame to the daemon, if there is one. Never blocks: a frame that the socket does not
 * take waits, and the daemon gets all frames in their order.
 */
void daemon_link_send(const void *frame);

/* Before the process ends: waits, for a second at most, until all frames were sent. */
void daemon_link_drain(void);

bool daemon_link_has_daemon(void);

#endif
