/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEER_H
#define PEER_H

/*
 * A peer is one connection to the control socket. It begins as a stranger and
 * becomes what its first bytes say: a client that waits to be handed to its
 * server, a server, or somebody who gives commands (commander.h).
 *
 * Loop thread. A peer lives until its handles have closed, which is later than
 * peer_close(): after a call that may have closed it, look at `kind'.
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

enum peer_kind {
	PEER_STRANGER,
	PEER_QUEUED, /* gives commands, and waits for others of its user to end */
	PEER_COMMANDER,
	PEER_CLIENT,
	PEER_HANDED_OVER, /* a client, on its way to the server */
	PEER_SERVER,
	PEER_CLOSED,
};

/* A command line, its newline included. */
#define COMMAND_MAX 1024

struct peer {
	struct list link;      /* in its tenant's peers */
	struct list wait;      /* in a slot's clients or starters, or the daemon's quitters */
	struct slot *slot;     /* not owned; where it waits */
	uint64_t queue_number; /* rises with each that begins to wait */
	struct daemon *daemon;
	struct tenant *tenant; /* its UID's, until it is closed */
	enum peer_kind kind;
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

	/* A commander: */
	bool is_waiting;                 /* for the end of a long command */
	struct termination *termination; /* not owned: that it waits for, or NULL */
	bool at_end;                     /* no more will come in */
	bool is_skipping;                /* the rest of a line that was too long */
	bool wants_marks;                /* of commands that fail: see commander.h */
	bool is_marked;                  /* the command that runs has such a mark */
	char command[48];                /* its name */
	char *out;                       /* replies that did not fit into the socket */
	char *again;                     /* probe.c: a command that is to run once more */
	size_t out_size, out_room;

	/* What has come in: a frame, or lines. */
	size_t in_size;
	union {
		struct frame_head head;
		struct frame_hello hello;
		struct frame_server introduction;
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
void peer_accept(struct daemon *daemon, int fd);

/* A server has ended: takes in the frames that it sent before. It may be closed after that. */
void peer_read_rest(struct peer *peer);

/* The end of it; may be called at any time, and twice. */
void peer_close(struct peer *peer);

/* Tells a client why it is not served (a CUresult and words for people), then closes. */
void peer_refuse(struct peer *peer, uint32_t result, const char *format, ...) _printf_(3, 4);

/*
 * Sends a frame whole or not at all: 0, -EAGAIN (the peer reads too slowly;
 * link_on_writable() follows), or -errno when the connection is of no more
 * use. `fd' may be negative.
 */
int peer_send(struct peer *peer, const void *frame, int fd);

/*
 * Reads at most `size' bytes. 0: the end of the stream. -EAGAIN; -EBADMSG: a
 * descriptor comes with them, which nobody sends to the daemon, and nothing was
 * read; -errno.
 */
ssize_t peer_recv(struct peer *peer, void *bytes, size_t size);

/* A line of control.log that this peer caused; of a guest's there is a limit. */
void peer_log(struct peer *peer, const char *format, ...) _printf_(2, 3);

/* Whether it has gone without having read all that was sent. */
bool peer_is_reset(const struct peer *peer);

/* Sets what it waits for, by its kind and state. */
void peer_watch(struct peer *peer);

/* Calls peer's kind of deadline after this time; 0 takes it back. */
void peer_set_deadline(struct peer *peer, uint64_t timeout_ms);

/* Becomes a client that waits, or a server that is linked. */
void peer_become(struct peer *peer, enum peer_kind kind);

#endif
