/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONN_H
#define CONN_H

/*
 * A connection to the control socket. It begins as CONN_NEW, and its first
 * bytes decide its kind: a client that waits to be handed to its server, a
 * server, or a peer that gives commands (command_conn.h). The file that knows
 * a kind gives the connection the functions of that kind (conn_become()).
 *
 * Loop thread. A connection lives until its handles have closed, which is
 * later than conn_close(): after a call that may have closed it, check `kind'.
 */

#include <stdarg.h>
#include <sys/socket.h>
#include <uv.h>

#include "frame.h"
#include "daemon/text/list.h"
#include "daemon/state/client_set.h"
#include "daemon/state/conn_kind.h"
#include "daemon/state/eviction.h"

struct account;
struct conn;
struct daemon;
struct pending;
struct server;
struct slot;
struct tenant;

/* A command line, its newline included. */
#define COMMAND_MAX 1024

/* What a connection of one kind does. NULL: nothing, and `merit' is MERIT_NEVER. */
struct conn_ops {
	int (*events)(const struct conn *conn); /* of UV_READABLE and others, to wait for */
	void (*on_event)(struct conn *conn, int events);
	void (*on_deadline)(struct conn *conn);
	void (*on_close)(struct conn *conn); /* its kind is CONN_CLOSED by now */
	enum eviction_merit (*merit)(const struct conn *conn);

	/* Of commands (pending.h): */
	void (*run)(struct conn *conn, char *line);
	void (*resume)(struct conn *conn);
	void (*reply)(struct conn *conn, bool is_failure, const char *format, va_list args);
};

struct conn {
	struct list link;  /* in its tenant's connections */
	struct list wait;  /* in the list of what it waits for: of a slot, a server, the daemon */
	struct slot *slot; /* not owned; where it waits */
	uint64_t number;   /* rises with each connection */
	uint64_t queue_number; /* rises with each connection that begins to wait */
	struct daemon *daemon;
	struct tenant *tenant; /* of its UID, until it is closed */
	enum conn_kind kind;
	const struct conn_ops *ops; /* of its kind */
	struct ucred cred; /* the process that connected; pid 0 if the daemon cannot see it */
	int fd;
	int pidfd;     /* of the peer, if clients are grouped by cgroup; else -errno */
	bool keeps_fd; /* the descriptor stays open until the daemon exits */
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned n_handles;

	struct server *handed_to; /* not owned; the server that it is handed to */
	uint32_t entry; /* the id of the group whose socket it came by; 0: the daemon's socket */
	uint32_t group; /* its id; 0: none */
	uint32_t
		cgroups[CGROUP_LEVELS_MAX]; /* the same, of cgroups with limits (cgroup_groups.h) */

	/* A server: */
	struct server *server; /* not owned; NULL once it has ended */
	bool wants_write;      /* the socket did not take a frame */
	bool was_reset;        /* the peer closed it before reading everything */

	/* A command connection: */
	const struct pending *pending; /* what the running command waits for, or NULL */
	const struct pending
		*awaited; /* what the command that runs again has waited for, or NULL */
	struct server *awaited_server;     /* not owned; terminate_client waits for it */
	pid_t awaited_pid;                 /* ... to end the work of this process */
	struct client_set awaited_clients; /* suspend_client or resume_client waits for them, */
	uint64_t awaited_serial;           /* as far as they were there at the command */
	bool was_queued;                   /* has been CONN_QUEUED, and has not begun since */
	bool at_end;                       /* the peer sends no more */
	bool is_skipping;                  /* the rest of a line that was too long */
	bool wants_marks;                  /* reports failures with NAK: see command_conn.h */
	bool has_end_mark;                 /* of a completed quit */
	bool is_marked;                    /* the running command has been reported as failed */
	bool is_watching;                  /* repeats stats, as top does: not logged again */
	bool is_for_pages;                 /* of mps-exporter: only `metrics' is permitted */
	bool is_for_file;                  /* of the file of -a: before all other commands */
	unsigned n_commands;               /* so far */
	char command[48];                  /* the name of the running command */
	char *out;                         /* replies that did not fit into the socket */
	char *retry;                       /* the command to run again after what it waits for */
	size_t out_size, out_room;

	/* Received input: a frame, or lines. */
	size_t in_size;
	union {
		struct frame_head head;
		struct frame_hello hello;
		struct frame_server server;
		struct frame_server_state state;
		struct frame_client_note note;
		struct frame_group_here group;
		struct frame_lease lease;
		struct frame_device device;
		struct frame_context context;
		struct frame_terminate terminated;
		struct frame_suspend suspended;
		struct frame_restarted restarted;
		struct frame_fault fault;
		struct frame_fault_client fault_client;
		struct frame_counters counters;
		struct frame_trace_end trace_end;
		uint8_t bytes[FRAME_MAX];
		char text[COMMAND_MAX];
	} in;
};

/* A connection has been accepted. Takes `fd'. */
void conn_accept(struct daemon *daemon, int fd, uint32_t entry);

/* The daemon's own end of a pair: the other end may only ask for metrics. Takes `fd'. 0 or -errno.
 */
int conn_open_for_pages(struct daemon *daemon, int fd);

/* The daemon's own end of a pair: the other end gives the commands of a file. Takes `fd'. 0 or
 * -errno.
 */
int conn_open_for_file(struct daemon *daemon, int fd);

/* Handles what the peer has sent, as if it had just arrived. May close the connection. */
void conn_read(struct conn *conn);

/* The connection that is oldest of those that match; NULL: no connection matches. */
struct conn *account_find_oldest_conn(
	const struct account *account, bool (*is_wanted)(const struct conn *));

/* Closes the connection; may be called at any time, and twice. */
void conn_close(struct conn *conn);

/* Sends a client the reason of its refusal (a CUresult and a text), then closes. False. */
bool conn_refuse(struct conn *conn, uint32_t result, const char *format, ...) _printf_(3, 4);

/*
 * Sends a frame whole or not at all: 0, -EAGAIN (the peer reads too slowly), or -errno when the
 * connection is broken. `fd' may be negative.
 *
 * What a server has to be sent is part of the daemon's state (of a client, a group, a trace), not
 * of a queue. After -EAGAIN server_send_due() sends everything that is still due.
 */
int conn_send(struct conn *conn, const void *frame, int fd);

/*
 * Reads at most `size' bytes. 0: the end of the stream. -EAGAIN. -EBADMSG: a
 * descriptor comes with the bytes, which the protocol never sends to the
 * daemon; nothing was read. -errno.
 */
ssize_t conn_recv(struct conn *conn, void *bytes, size_t size);

/* Collects a frame: until there are `wanted' bytes. 1; 0: more is needed; -EBADMSG, -ECONNRESET,
 * -errno. */
int conn_fill_frame(struct conn *conn, size_t wanted);

/* The same for one whole frame, which has the size of its type. */
int conn_read_frame(struct conn *conn);

/*
 * Whether the user of the connection is trusted with everything. The server of all users has
 * clients of root in containers: these are not, if they come by the socket of a namespace, unless
 * `trust_container_root' is set.
 */
bool conn_is_trusted(const struct conn *conn);

/* Whether the user of the connection owns what belongs to that UID. */
bool conn_owns(const struct conn *conn, uid_t uid);

/* Logs a line to control.log that this connection caused; a guest has a limit of lines. */
void conn_log(struct conn *conn, const char *format, ...) _printf_(2, 3);

/* Whether the peer closed it before reading everything that was sent. */
bool conn_is_reset(const struct conn *conn);

/* Watches the events that its kind and state need. */
void conn_watch(struct conn *conn);

/* Sets the deadline, which calls the handler of its kind; 0 removes it. */
void conn_set_deadline(struct conn *conn, uint64_t timeout_ms);

/* Changes the kind, for example to a client that waits; removes the deadline. `ops' stay. */
void conn_become(struct conn *conn, enum conn_kind kind, const struct conn_ops *ops);

#endif
