/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULT_REPORT_H
#define FAULT_REPORT_H

/*
 * Which client caused a GPU fault. The driver does not say. It is certain if only one client
 * had work on a GPU. Otherwise, if the daemon may read the kernel's log, it sends the
 * address of the fault, and a client whose memory is there is named. Otherwise all clients
 * that had work are suspects.
 *
 * Loop thread.
 */

#include "frame.h"

struct client_conn;

struct fault_report {
	struct frame_fault frame; /* as sent to the daemon */
	struct {
		uint64_t id;
		uint32_t session;
		pid_t pid;
		char kernel[FRAME_TEXT_MAX]; /* last launched, once known */
	} suspects[FAULT_SUSPECTS_MAX];
	unsigned n_suspects; /* number of suspects in the list */
	bool is_address_due; /* the daemon may still send it */
};

/* After a fault: finds the clients that may have caused it, and logs them. */
void fault_report_begin(struct fault_report *report, const struct client_conn *conns);

/* The daemon's ID, and the PID, of the client that is known to be the cause; 0: unknown. */
uint64_t fault_report_client(const struct fault_report *report);
pid_t fault_report_pid(const struct fault_report *report);

/* Sends what is known now to the daemon. */
void fault_report_send(const struct fault_report *report);

/* The daemon has sent the address, or the fact that it will never know it. */
void fault_report_take_address(
	struct fault_report *report, const struct frame_fault_address *frame);

/* The client launches nothing any more: the kernel that it launched last is known. */
void fault_report_note_end(struct fault_report *report, const struct client_conn *conn);

/* Whether the client is the cause or, as long as that is unknown, may be. */
bool fault_report_suspects(const struct fault_report *report, const struct client_conn *conn);

/* Whether the address of the fault may lie in memory of the client. */
bool fault_report_is_hit(const struct fault_report *report, const struct client_conn *conn);

/* Whether the address may still come, so long after the fault. */
bool fault_report_awaits_address(const struct fault_report *report, uint64_t ms);

/* Whether more may become known if the server waits for a moment: so long after the fault. */
bool fault_report_is_open(const struct fault_report *report, uint64_t ms);

/* Work of a client continues after its end, which ends the server. */
void fault_report_overdue(struct fault_report *report, const struct client_conn *conn);

#endif
