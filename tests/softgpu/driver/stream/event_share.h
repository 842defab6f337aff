/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_SHARE_H
#define EVENT_SHARE_H

/*
 * The part of an event that processes share: a page that counts the records that were
 * submitted, and how many of them are done. The references are under the driver's lock;
 * the rest runs in any thread.
 */

#include <stdbool.h>
#include <stdint.h>

struct event_share;
struct ipc_ticket;

/* Negative errno. */
int event_share_new(struct event_share **ret_share);
int event_share_open(const struct ipc_ticket *ticket, struct event_share **ret_share);
int event_share_ticket(const struct event_share *share, struct ipc_ticket *ret_ticket);
struct event_share *event_share_ref(struct event_share *share);
void event_share_unref(struct event_share *share);

/* A record is submitted: its number. */
uint64_t event_share_record(struct event_share *share);
/* That record, and all before it, are done. */
void event_share_done(struct event_share *share, uint64_t number);

/* The number of the last record. */
uint64_t event_share_last(const struct event_share *share);
/* Whether it is done, or its process has ended. */
bool event_share_reached(const struct event_share *share, uint64_t number);
/* Sleeps for a moment, outside the driver's lock. */
void event_share_pause(void);

#endif
