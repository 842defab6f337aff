/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENTS_H
#define CLIENTS_H

/*
 * The clients of one server: those handed over to it, and those that an
 * adopted server has reported.
 *
 * The daemon keeps a connection open until the server has received it from
 * their socket, and only then hands over the next one. If the server dies
 * before that, the client is not lost: it waits for another server.
 *
 * This file and server.c call each other: a server that ends loses its clients,
 * and a server that accepts no client is ended. Loop thread.
 */

#include <sys/types.h>

#include "frame.h"
#include "daemon/text/list.h"
#include "daemon/state/counts.h"

struct account;
struct conn;
struct daemon;
struct server;

/* A GPU that a client uses, and the client's limits on it. */
struct context {
	uint32_t ordinal; /* the server's */
	uint32_t session; /* "Context ID" of log lines */
	uint32_t n_sms;
	int32_t priority;
	uint64_t memory; /* bytes; UINT64_MAX: no limit */
};

/* Progress of a terminate_client command for this client. */
enum termination_state {
	TERMINATION_NONE,
	TERMINATION_WANTED, /* the request has not been sent to the server yet */
	TERMINATION_ASKED,
	TERMINATION_DONE, /* every call of the client fails */
};

/* What the operator wants for a client, and what its server has reported (watch/suspension.h). */
struct client_suspension {
	uint64_t serial;       /* of the last command */
	bool is_wanted;        /* by that command */
	bool is_due;           /* ... which the server was not sent yet */
	uint32_t number;       /* of the last order; the server's reports repeat it */
	enum suspension state; /* as reported */
};

struct client {
	struct list link;
	uint64_t id;
	pid_t pid; /* 0: it is in a PID namespace that the daemon cannot see */
	uid_t uid;
	struct account *account; /* owns a reference */
	uint32_t program;        /* from its HELLO */
	uint32_t group;          /* its id; 0: none */
	uint32_t
		cgroups[CGROUP_LEVELS_MAX]; /* the same, of cgroups with limits (cgroup_groups.h) */
	uint64_t pid_namespace;             /* its inode; 0: not known */
	char command[FRAME_TEXT_MAX];
	uint64_t
		partition[DEVICES_MAX]; /* the chunks of SMs that it has, of GPUs with partitions */
	uint64_t soft[DEVICES_MAX];     /* its own soft limits; MEMORY_ALL: none */
	struct context contexts[DEVICES_MAX];
	unsigned n_contexts;
	struct counts counts;        /* as of the server's last report, as is the next */
	char kernel[FRAME_TEXT_MAX]; /* launched last, "" if none */
	char restart[MOVE_TEXT_MAX]; /* as in struct frame_counters */
	enum termination_state termination;
	struct client_suspension suspension;
	uint64_t probation_end_ms; /* by the loop's clock; 0: it is not on probation */
	bool is_victim;            /* its server has said why it does not survive a fault */
	bool has_lost_work;        /* ... or that it survives without its work */
	bool is_moving;            /* another server has it: see successor.h */
	bool is_reported; /* its server has it on its present connection: see client_report.h */
};

/* Sets the time that its probation still lasts; whether it lasts. */
void client_set_probation(struct client *client, const struct daemon *daemon, uint32_t ms);
bool client_is_on_probation(const struct client *client, const struct daemon *daemon);

/* Why memory of the client stays on a GPU that it had to leave; "": it does not. */
const char *client_stays(const struct client *client);

struct client *clients_find(const struct server *server, uint64_t id);

/* How many clients of that process the server has. */
unsigned clients_count_process(const struct server *server, pid_t pid);

/* Whether it is in the group, or in the cgroup of that group. */
static inline bool client_is_in(const struct client *client, uint32_t group)
{
	for (unsigned i = 0; i < CGROUP_LEVELS_MAX; i++)
		if (client->cgroups[i] == group)
			return true;
	return client->group == group;
}

/* How many clients are in the group, or wait for their server and will be. */
unsigned clients_count_group(const struct daemon *daemon, uint32_t group);

/*
 * 0, -EUSERS (the server is full), -EDQUOT (all servers together have too many clients, or too
 * many of the client's account) or -ENOMEM.
 */
int clients_add(
	struct server *server, const struct frame_client_note *note, struct client **ret_client);

/* The server reports that a client uses a GPU. 0 or -EBADMSG. */
int clients_add_context(struct server *server, const struct frame_context *frame);
void clients_remove(struct server *server, uint64_t id);

/*
 * Hands the connection of a client to the server. 0: sent. -EAGAIN: try again
 * when the previous client has arrived (slots_progress() follows). -errno: this
 * client cannot be served.
 */
int clients_hand_over(struct server *server, struct conn *conn);

/* Checks, when the server has sent something, whether it has received the client in flight. */
void clients_check_handover(struct server *server);

/* Ends the handover of the client in flight, which the server has. */
void clients_end_handover(struct server *server);

/*
 * The server's connection broke before the server had the client in flight: the connection of
 * that client, which has to wait again; NULL if there is none.
 */
struct conn *clients_take_back(struct server *server);

/* Moves a client to the list of another server. */
void clients_move(struct server *from, struct client *client, struct server *to);

/* Removes all clients from the list. */
void clients_clear(struct server *server);

#endif
