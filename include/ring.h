/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RING_H
#define RING_H

/*
 * The ring carries a client's messages to its worker: several threads in, one
 * out, strictly in the order in which they were placed. Bytes in the ring and
 * `tail' are the client's; `head' and everything else the server decides by is
 * in the server's page or in private memory.
 */

#include <pthread.h>

#include "layout.h"
#include "shm.h"

/* A message is placed in pieces: its fixed struct, then its tails. */
struct ring_part {
	const void *data;
	uint32_t size; /* padded with zeros to MESSAGE_ALIGN in the ring */
};

/* The data behind the control words: RING_SIZE bytes. */
static inline uint8_t __shm *ring_data(struct ring_control __shm *ring)
{
	return (uint8_t __shm *)ring + RING_DATA_OFFSET;
}

/* The client's end. Threads take turns by `lock'. */
struct ring_sender {
	pthread_mutex_t lock;
	struct ring_control __shm *control;
	uint8_t __shm *data;
	const struct page __shm *page;
	uint32_t tail; /* our own; `control' gets copies */
	uint32_t head; /* the server's, as it was when room was short last */
	uint32_t seq;
};

void ring_sender_init(
	struct ring_sender *sender, struct ring_control __shm *ring, const struct page __shm *page);

/*
 * Places one message. `parts[0]' begins with a struct message_head whose op
 * and reply are set; size and seq are filled in here (in that memory). Waits
 * for room up to `timeout_ms'; `is_alive' is asked meanwhile. 0, -EMSGSIZE,
 * -ETIMEDOUT, -EPIPE (not alive).
 */
int ring_push(struct ring_sender *sender, struct ring_part *parts, unsigned n_parts, int timeout_ms,
	bool (*is_alive)(void *user), void *user);

/* The server's end. One thread. */
struct ring_receiver {
	struct ring_control __shm *control;
	uint8_t __shm *data;
	struct page __shm *page;
	uint32_t head;   /* our own; the page gets copies */
	uint32_t n_held; /* bytes in `held' not yet given out */
	uint32_t n_given;
	uint8_t *held; /* RING_RUN_MAX bytes, private */
};

/* Bytes taken out at a time; at least two of the largest messages. */
#define RING_RUN_MAX (256u << 10)

int ring_receiver_init(
	struct ring_receiver *receiver, struct ring_control __shm *ring, struct page __shm *page);
void ring_receiver_fini(struct ring_receiver *receiver);

/*
 * Copies what has been placed into private memory, once, and gives its room
 * back. 1: there is something to take. 0: nothing. -EBADMSG: `tail' is a lie.
 */
int ring_fetch(struct ring_receiver *receiver);

/*
 * The next whole message of what was fetched, valid until the next fetch.
 * 1, 0 (no whole one left), -EBADMSG (size wrong). Head fields `size' and
 * `reserved' have been checked; nothing else has.
 */
int ring_take(struct ring_receiver *receiver, const struct message_head **ret_message);

/* Whether something that was fetched is still to be taken, be it half a message. */
bool ring_has_next(const struct ring_receiver *receiver);

/* Whether more has been placed than was fetched. */
bool ring_has_more(const struct ring_receiver *receiver);

/*
 * Sleeps until something is placed, at most `timeout_ms', unless something has
 * been already. ring_interrupt() from another thread ends it too.
 */
void ring_sleep(struct ring_receiver *receiver, int timeout_ms);
void ring_interrupt(struct ring_receiver *receiver);

#endif
