/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACING_H
#define TRACING_H

/*
 * Traces of servers. The daemon makes the memory of a trace, and a server fills it. So the
 * trace can be read after the server has ended. Loop thread.
 */

#include <sys/types.h>

#include "base.h"
#include "trace_file.h"
#include "daemon/text/list.h"
#include "daemon/server/server_watch.h"

struct account;
struct conn;
struct daemon;
struct frame_trace_end;
struct server;

/* Traces that have not been read yet count, too. Each has TRACE_SIZE at most. */
#define TRACES_MAX 32u
#define RESERVED_TRACES 4u
/* Of one account. */
#define TRACES_OF_GUEST_MAX 4u

struct trace {
	struct list link; /* in daemon->traces */
	uint64_t id;
	uid_t owner;             /* the user that began it */
	struct account *account; /* of the owner; owns a reference */
	uint32_t traced_uid;     /* only clients of that user; UINT32_MAX: all */
	pid_t server_pid;        /* stays after the server's end */
	struct server *server;   /* not owned; NULL: it records no more */
	uint32_t clients_uid;    /* the only user of its clients; UINT32_MAX: there are others */
	bool is_begun;           /* the server was sent it */
	bool is_asked;           /* the server has to end it */
	bool is_end_sent;        /* ... and was asked to */
	bool is_cut;             /* it ended before that */
	uint64_t n_lost;         /* events without space, once the server has replied */
	int fd;
};

/*
 * Begins a trace of a server, for the user of the connection. -EALREADY: the user has one there.
 * -EUSERS: the user or the daemon has too many. -errno.
 */
int tracing_begin(struct conn *conn, struct server *server);

/* Whether the user of the connection may end and read it. */
bool tracing_permits(const struct conn *conn, const struct trace *trace);

/* The trace with that number that the connection may read; or NULL. */
struct trace *tracing_find(const struct conn *conn, uint64_t id);

/*
 * Asks the servers to end the connection's traces (`server_pid': only of that server; 0: all).
 * False: they have not yet, so `command' runs again when they have, or after a second.
 */
bool tracing_is_ended(struct conn *conn, pid_t server_pid, const char *command);

/* A server's reply. */
void tracing_on_frame(struct server *server, const struct frame_trace_end *frame);

extern const struct server_watch tracing_watch;

/* Copies a chunk. False: it is not in use, has impossible numbers, or is another user's. */
bool tracing_read(const struct conn *conn, const struct trace *trace, unsigned index,
	struct trace_chunk *ret);

struct trace_summary {
	unsigned n_chunks; /* including unused ones before the last */
	uint64_t n_events, n_lost;
	unsigned n_clients;
};

void tracing_summarise(
	const struct conn *conn, const struct trace *trace, struct trace_summary *ret);

/* Forgets the trace. */
void tracing_free(struct trace *trace);

/* The daemon ends. */
void tracing_fini(struct daemon *daemon);

#endif
