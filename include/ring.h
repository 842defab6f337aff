/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RING_H
#define RING_H

/*
 * The ring carries a client's messages to its worker: several threads put them in, one
 * takes them out, strictly in the same order. The client writes the bytes in the ring
 * and `tail'. `head' and everything else on which the server bases decisions is in the
 * server's page or in private memory.
 */

#include "layout.h"
#include "lock.h"
#include "shm.h"

/* The parts of a message: its fixed struct, then its tails. */
struct ring_part {
	const void *data;
	uint32_t size; /* padded with zeros to MESSAGE_ALIGN in the ring */
};

/* The data after the control words: RING_SIZE bytes. */
static inline uint8_t __shm *ring_data(struct ring_control __shm *ring)
{
	return (uint8_t __shm *)ring + RING_DATA_OFFSET;
}

/* The client's end. `lock' admits one thread at a time. */
struct ring_sender {
	struct lock lock;
	struct ring_control __shm *control;
	uint8_t __shm *data;
	const struct page __shm *page;
	uint32_t tail; /* the original; `control' gets copies */
	uint32_t head; /* the server's, as read when there was too little space last */
	uint32_t seq;
};

void ring_sender_init(
	struct ring_sender *sender, struct ring_control __shm *ring, const struct page __shm *page);

/*
 * Puts one message into the ring. `parts[0]' begins with a struct message_head
 * whose op and reply are set; ring_push() fills in size and seq, in that memory.
 * Waits for space up to `timeout_ms' and calls `is_alive' meanwhile. 0, -EMSGSIZE,
 * -ETIMEDOUT, -EPIPE (not alive).
 */
int ring_push(struct ring_sender *sender, struct ring_part *parts, unsigned n_parts, int timeout_ms,
	bool (*is_alive)(void *user), void *user);

/* Ends the receiver's sleep, so that it is awake for a message that follows soon. */
void ring_wake(const struct ring_sender *sender);

/* The server's end. One thread. */
struct ring_receiver {
	struct ring_control __shm *control;
	uint8_t __shm *data;
	struct page __shm *page;
	uint32_t head;   /* the original; the page gets copies */
	uint32_t n_held; /* bytes in `held' that ring_pop() has not returned yet */
	uint32_t n_given;
	uint8_t *held; /* RING_RUN_MAX bytes, private */
};

/* Bytes of one fetch; at least two of the largest messages. */
#define RING_RUN_MAX (256u << 10)

int ring_receiver_init(
	struct ring_receiver *receiver, struct ring_control __shm *ring, struct page __shm *page);
void ring_receiver_fini(struct ring_receiver *receiver);

/*
 * Copies the new messages into private memory, once, and frees their space in the
 * ring. 1: there are messages to take. 0: nothing. -EBADMSG: `tail' is wrong.
 */
int ring_fetch(struct ring_receiver *receiver);

/*
 * The next whole message of the last fetch, valid until the next fetch. 1, 0 (no
 * whole message is left), -EBADMSG (wrong size). The head's `size' and `reserved'
 * are checked; nothing else is.
 */
int ring_take(struct ring_receiver *receiver, const struct message_head **ret_message);

/*
 * The message that ends with or behind the byte, and those behind it, will be taken again. False:
 * it is not of the last fetch.
 */
bool ring_put_back(struct ring_receiver *receiver, const void *byte);

/* Whether a whole message, or a wrong one, is left of the last fetch. */
bool ring_has_whole(const struct ring_receiver *receiver);

/* Whether fetched bytes are left, even if they are only part of a message. */
bool ring_has_next(const struct ring_receiver *receiver);

/* Whether the ring has bytes that are not fetched yet. */
bool ring_has_more(const struct ring_receiver *receiver);

/*
 * Sleeps until a message arrives, at most `timeout_ms'; returns at once if one is
 * there. ring_interrupt() from another thread ends the sleep too.
 */
void ring_sleep(struct ring_receiver *receiver, int timeout_ms);

/* The same, but messages do not end the sleep; it may end early. */
void ring_pause(struct ring_receiver *receiver, int timeout_ms);

void ring_interrupt(struct ring_receiver *receiver);

#endif
