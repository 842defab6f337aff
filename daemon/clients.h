/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENTS_H
#define CLIENTS_H

/*
 * The clients of one server: those handed over, and those that an adopted one
 * has told us of.
 *
 * A connection that was handed over stays open here until the server has read
 * it off its link, and only then the next one goes. If the server dies before,
 * the client is not lost: it waits for another. Loop thread.
 */

#include <sys/types.h>

#include "frame.h"
#include "list.h"

struct conn;
struct server;

/* A GPU that a client uses, and what holds for it there. */
struct context {
	uint32_t ordinal; /* the server's */
	uint32_t session; /* "Context ID" of log lines */
	uint32_t n_sms;
	int32_t priority;
	uint64_t memory; /* bytes; UINT64_MAX: no limit */
};

/* How far the end of its work has come that a command has asked for. */
enum termination_state {
	TERMINATION_NONE,
	TERMINATION_WANTED, /* the server has not been asked yet */
	TERMINATION_ASKED,
	TERMINATION_DONE, /* every call of the client fails */
};

struct client {
	struct list link;
	uint64_t id;
	pid_t pid; /* 0: of a PID namespace that we cannot see */
	uid_t uid;
	uint32_t program;       /* as its HELLO has it */
	uint32_t group;         /* its id; 0: none */
	uint64_t pid_namespace; /* the inode of it; 0: not known */
	char command[FRAME_TEXT_MAX];
	uint64_t partition[DEVICES_MAX]; /* the chunks of SMs that it has named, with -S */
	struct context contexts[DEVICES_MAX];
	unsigned n_contexts;
	enum termination_state termination;
};

struct client *clients_find(const struct server *server, uint64_t id);

/* How many of that process it has. */
unsigned clients_count_process(const struct server *server, pid_t pid);

/* 0, -EUSERS (of one server), -EDQUOT (of all) or -ENOMEM. */
int clients_add(
	struct server *server, const struct frame_client_note *note, struct client **ret_client);

/* The server says that a client uses a GPU. 0 or -EBADMSG. */
int clients_add_context(struct server *server, const struct frame_context *frame);
void clients_remove(struct server *server, uint64_t id);

/*
 * Hands a client's connection over. 0: it is on its way. -EAGAIN: later, when
 * the one before has arrived (slot_progress() follows). -errno: this client
 * cannot be served.
 */
int clients_hand_over(struct server *server, struct conn *conn);

/* A sign of life from the server: has what is on its way arrived? */
void clients_check_handover(struct server *server);

/*
 * The link has gone: what was on its way has been read, and is the server's,
 * or (`is_unread') goes back to those who wait.
 */
void clients_end_handover(struct server *server, bool is_unread);

/* Forgets them all. */
void clients_clear(struct server *server);

#endif
