/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULT_REPORT_H
#define FAULT_REPORT_H

/*
 * Whose GPU fault it was. The driver does not say. It is certain where one
 * client alone had work on a GPU; the kernel's log has the address, and the
 * daemon tells it where it may read that log: the address of a client's memory
 * names the client. Else all that had work are suspects.
 *
 * Loop thread.
 */

#include "frame.h"

struct client_conn;
struct server;

struct fault_report {
	struct frame_fault frame; /* as the daemon is told */
	struct {
		uint64_t id;
		uint32_t session;
		pid_t pid;
		char kernel[FRAME_TEXT_MAX]; /* that it has launched last, once known */
	} suspects[FAULT_SUSPECTS_MAX];
	unsigned n_suspects; /* that are in the list */
	bool is_address_due; /* the daemon may tell it yet */
};

/* A fault has come: finds who may have caused it, and tells server.log. */
void fault_report_begin(struct server *server);

/* The daemon's id, and the PID, of the one who certainly has, or 0. */
uint64_t fault_report_client(const struct server *server);
pid_t fault_report_pid(const struct server *server);

/* Tells the daemon what is known by now. */
void fault_report_send(struct server *server);

/* The daemon knows the address, or that it never will. */
void fault_report_take_address(struct server *server, const struct frame_fault_address *frame);

/* The client's worker has come to its end: the kernel that it has launched last is known. */
void fault_report_note_end(struct server *server, const struct client_conn *conn);

/* Whether more may become known, if the server waits for a moment. */
bool fault_report_is_open(const struct server *server);

/* Work of a client goes on after its end, which ends the server. */
void fault_report_overdue(struct server *server, const struct client_conn *conn);

#endif
