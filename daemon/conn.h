/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONN_H
#define CONN_H

/*
 * A connection is one connection to the control socket. It begins as a stranger and
 * becomes what its first bytes say: a client that waits to be handed to its
 * server, a server, or somebody who gives commands (command_conn.h).
 *
 * Loop thread. A connection lives until its handles have closed, which is later than
 * conn_close(): after a call that may have closed it, look at `kind'.
 */

#include <sys/socket.h>
#include <uv.h>

#include "frame.h"
#include "list.h"

struct daemon;
struct server;
struct slot;
struct tenant;
struct termination;

enum conn_kind {
	CONN_NEW,
	CONN_QUEUED, /* gives commands, and waits for others of its user to end */
	CONN_COMMAND,
	CONN_CLIENT,
	CONN_HANDED_OVER, /* a client, on its way to the server */
	CONN_SERVER,
	CONN_CLOSED,
};

/* A command line, its newline included. */
#define COMMAND_MAX 1024

struct conn {
	struct list link;      /* in its tenant's connections */
	struct list wait;      /* in a slot's clients or starters, or the daemon's quitters */
	struct slot *slot;     /* not owned; where it waits */
	uint64_t queue_number; /* rises with each that begins to wait */
	struct daemon *daemon;
	struct tenant *tenant; /* its UID's, until it is closed */
	enum conn_kind kind;
	struct ucred cred; /* who connected; its pid is 0 if we cannot see it */
	int fd;
	bool keeps_fd; /* it stays open until the process ends */
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned n_handles;

	struct server *handed_to; /* not owned; of one that is handed over */
	uint32_t group;           /* its id; 0: none */

	/* A server: */
	struct server *server; /* not owned; NULL once it has ended */
	bool wants_write;
	bool was_reset; /* it went without having read all that was sent */

	/* A command connection: */
	bool is_waiting;                 /* for the end of a long command */
	struct termination *termination; /* not owned: that it waits for, or NULL */
	bool at_end;                     /* no more will come in */
	bool is_skipping;                /* the rest of a line that was too long */
	bool wants_marks;                /* of commands that fail: see command_conn.h */
	bool is_marked;                  /* the command that runs has such a mark */
	char command[48];                /* its name */
	char *out;                       /* replies that did not fit into the socket */
	char *retry;                     /* probe.c: a command that is to run once more */
	size_t out_size, out_room;

	/* What has come in: a frame, or lines. */
	size_t in_size;
	union {
		struct frame_head head;
		struct frame_hello hello;
		struct frame_server server;
		struct frame_server_state state;
		struct frame_client_note note;
		struct frame_device device;
		struct frame_context context;
		struct frame_terminate terminated;
		struct frame_fault fault;
		uint8_t bytes[FRAME_MAX];
		char text[COMMAND_MAX];
	} in;
};

/* A connection has been accepted. Takes `fd'. */
void conn_accept(struct daemon *daemon, int fd);

/* A server has ended: takes in the frames that it sent before. It may be closed after that. */
void conn_read_rest(struct conn *conn);

/* The end of it; may be called at any time, and twice. */
void conn_close(struct conn *conn);

/* Tells a client why it is not served (a CUresult and words for people), then closes. */
void conn_refuse(struct conn *conn, uint32_t result, const char *format, ...) _printf_(3, 4);

/*
 * Sends a frame whole or not at all: 0, -EAGAIN (the connection reads too slowly;
 * server_conn_on_writable() follows), or -errno when the connection is of no more
 * use. `fd' may be negative.
 */
int conn_send(struct conn *conn, const void *frame, int fd);

/*
 * Reads at most `size' bytes. 0: the end of the stream. -EAGAIN; -EBADMSG: a
 * descriptor comes with them, which nobody sends to the daemon, and nothing was
 * read; -errno.
 */
ssize_t conn_recv(struct conn *conn, void *bytes, size_t size);

/* A line of control.log that this connection caused; of a guest's there is a limit. */
void conn_log(struct conn *conn, const char *format, ...) _printf_(2, 3);

/* Whether it has gone without having read all that was sent. */
bool conn_is_reset(const struct conn *conn);

/* Sets what it waits for, by its kind and state. */
void conn_watch(struct conn *conn);

/* Calls connection's kind of deadline after this time; 0 takes it back. */
void conn_set_deadline(struct conn *conn, uint64_t timeout_ms);

/* Becomes a client that waits, or a server that is linked. */
void conn_set_kind(struct conn *conn, enum conn_kind kind);

#endif
