/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COUNTING_H
#define COUNTING_H

/*
 * What clients have done, as their servers count it. The daemon asks the servers when a
 * command needs it, and keeps the sums of clients that have ended. Loop thread.
 */

#include "base.h"
#include "bounds.h"
#include "counters.h"

struct client;
struct conn;
struct daemon;
struct frame_counters;
struct server;

struct counts {
	uint64_t counters[COUNTERS];
	uint64_t memory[DEVICES_MAX];      /* bytes, by the server's ordinals */
	uint64_t memory_peak[DEVICES_MAX]; /* bytes */
};

/* Adds counters; memory is not summed. */
void counts_add(struct counts *sum, const struct counts *counts);

/*
 * Asks the servers for the counters of their clients. Whether a reply is outstanding: then
 * metrics_server_on_counters() follows.
 */
bool counting_ask(struct daemon *daemon);

/*
 * Whether the counters are fresh. If not, the servers are asked, and `command' runs again
 * when all have replied, or after a second.
 */
bool counting_is_fresh(struct conn *conn, const char *command);

/* Sends the server a request that it has not been sent yet, if its socket takes it now. */
void counting_send(struct server *server);

/* The connection has reached its deadline: its command uses what is known. */
void counting_on_deadline(struct conn *conn);

/* A server's frame. */
void counting_on_frame(struct server *server, const struct frame_counters *frame);

/* The server's connection is gone: no reply will come. */
void counting_fail(struct server *server);

/* A client has ended: its counters go to its user and its group. */
void counting_note_end(const struct server *server, const struct client *client);

/* Commands no longer wait. */
void counting_stop(struct daemon *daemon);

#endif
