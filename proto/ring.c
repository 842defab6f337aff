/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The ring. Any thread of the client calls ring_push(); only the worker of the
 * session calls the rest.
 *
 * Invariant: `tail' and `head' are free-running byte counts, and 0 <= tail -
 * head <= RING_SIZE. The sender trusts the server's head. The receiver does not
 * trust the tail: a tail that breaks the rule ends the session.
 */

#include "ring.h"

#include <string.h>

#include "clock.h"
#include "lock.h"

_Static_assert((RING_SIZE & (RING_SIZE - 1)) == 0, "RING_SIZE is a power of two");
_Static_assert(RING_RUN_MAX >= 2 * MESSAGE_MAX, "a whole message always fits beside a partial one");
_Static_assert(sizeof(struct ring_control) <= RING_DATA_OFFSET, "control words and data are apart");
_Static_assert(sizeof(struct message_head) == 16, "wire");
_Static_assert(sizeof(struct reply_head) == 16, "wire");

/* How often to look for space in the ring; and later, as the client may be suspended. */
#define ROOM_PAUSE_NS 20000
#define ROOM_PATIENCE_MS 100
#define ROOM_PAUSE_MAX_NS 2000000

void ring_sender_init(
	struct ring_sender *sender, struct ring_control __shm *ring, const struct page __shm *page)
{
	*sender = (struct ring_sender){
		.lock = LOCK_INIT(RING_SENDER),
		.control = ring,
		.data = ring_data(ring),
		.page = page,
	};
}

/*
 * The worker writes its head each time it takes messages out. Reading it for each message would
 * cost a transfer between processors before the message can go.
 */
static bool sender_has_room(struct ring_sender *sender, uint32_t size)
{
	if (likely(sender->tail - sender->head <= RING_SIZE - size))
		return true;
	sender->head = shm_load32(&sender->page->head);
	return sender->tail - sender->head <= RING_SIZE - size;
}

/* A full ring means that the worker is busy: it frees hundreds of KiB at a time. */
static int sender_wait_room(struct ring_sender *sender, uint32_t size, int timeout_ms,
	bool (*is_alive)(void *), void *user)
{
	struct timespec pause = {.tv_nsec = ROOM_PAUSE_NS};
	uint64_t start_ms = 0;

	while (!sender_has_room(sender, size)) {
		if (start_ms == 0)
			start_ms = now_ms();
		else if (now_ms() - start_ms >= (uint64_t)timeout_ms)
			return -ETIMEDOUT;
		else if (now_ms() - start_ms >= ROOM_PATIENCE_MS)
			pause.tv_nsec = ROOM_PAUSE_MAX_NS;
		if (is_alive && !is_alive(user))
			return -EPIPE;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Copies to a free-running position; in two parts at the end of the buffer. */
static void sender_write(struct ring_sender *sender, uint32_t at, const void *data, uint32_t size)
{
	uint32_t off = at & (RING_SIZE - 1);
	uint32_t first = MIN(size, RING_SIZE - off);

	shm_copy_in(sender->data + off, data, first);
	shm_copy_in(sender->data, (const uint8_t *)data + first, size - first);
}

static void sender_place(
	struct ring_sender *sender, const struct ring_part *parts, unsigned n_parts)
{
	static const uint8_t zeros[MESSAGE_ALIGN];
	uint32_t at = sender->tail;

	for (unsigned i = 0; i < n_parts; i++) {
		uint32_t padded = ALIGN_UP(parts[i].size, MESSAGE_ALIGN);

		/* An empty tail may have a NULL address. */
		if (padded == 0)
			continue;
		sender_write(sender, at, parts[i].data, parts[i].size);
		sender_write(sender, at + parts[i].size, zeros, padded - parts[i].size);
		at += padded;
	}
}

int ring_push(struct ring_sender *sender, struct ring_part *parts, unsigned n_parts, int timeout_ms,
	bool (*is_alive)(void *user), void *user)
{
	struct message_head *head = (struct message_head *)(uintptr_t)parts[0].data;
	uint32_t size = 0;
	int r;

	for (unsigned i = 0; i < n_parts; i++) {
		if (parts[i].size > MESSAGE_MAX)
			return -EMSGSIZE;
		size += ALIGN_UP(parts[i].size, MESSAGE_ALIGN);
		if (size > MESSAGE_MAX)
			return -EMSGSIZE;
	}

	lock_take(&sender->lock);
	r = sender_wait_room(sender, size, timeout_ms, is_alive, user);
	if (r == 0) {
		head->size = size;
		head->seq = ++sender->seq;
		sender_place(sender, parts, n_parts);
		sender->tail += size;
		shm_store32(&sender->control->tail, sender->tail);
	}
	lock_release(&sender->lock);
	if (r < 0)
		return r;

	shm_fence();
	ring_wake(sender);
	return 0;
}

void ring_wake(const struct ring_sender *sender)
{
	if (shm_load32(&sender->page->worker_asleep))
		shm_wake(&sender->control->tail);
}

int ring_receiver_init(
	struct ring_receiver *receiver, struct ring_control __shm *ring, struct page __shm *page)
{
	uint8_t *held = malloc(RING_RUN_MAX);

	if (!held)
		return -ENOMEM;
	*receiver = (struct ring_receiver){
		.control = ring,
		.data = ring_data(ring),
		.page = page,
		.held = held,
	};
	return 0;
}

void ring_receiver_fini(struct ring_receiver *receiver)
{
	free(receiver->held);
	receiver->held = NULL;
}

/* A message that the last fetch cut off moves to the front. */
static void receiver_compact(struct ring_receiver *receiver)
{
	uint32_t left = receiver->n_held - receiver->n_given;

	if (left > 0 && receiver->n_given > 0)
		memmove(receiver->held, receiver->held + receiver->n_given, left);
	receiver->n_held = left;
	receiver->n_given = 0;
}

int ring_fetch(struct ring_receiver *receiver)
{
	uint32_t size = shm_load32(&receiver->control->tail) - receiver->head;
	uint32_t off = receiver->head & (RING_SIZE - 1);
	uint32_t first;

	if (size > RING_SIZE || size % MESSAGE_ALIGN != 0)
		return -EBADMSG;
	if (size == 0)
		return 0;
	receiver_compact(receiver);
	size = MIN(size, RING_RUN_MAX - receiver->n_held);
	first = MIN(size, RING_SIZE - off);
	shm_copy_out(receiver->held + receiver->n_held, receiver->data + off, first);
	shm_copy_out(receiver->held + receiver->n_held + first, receiver->data, size - first);
	receiver->n_held += size;
	receiver->head += size;
	shm_store32(&receiver->page->head, receiver->head);
	return 1;
}

int ring_take(struct ring_receiver *receiver, const struct message_head **ret_message)
{
	uint32_t left = receiver->n_held - receiver->n_given;
	const struct message_head *head = (void *)(receiver->held + receiver->n_given);

	if (left < sizeof(*head))
		return 0;
	if (head->size < sizeof(*head) || head->size > MESSAGE_MAX ||
		head->size % MESSAGE_ALIGN != 0 || head->reserved != 0)
		return -EBADMSG;
	if (head->size > left)
		return 0;
	receiver->n_given += head->size;
	*ret_message = head;
	return 1;
}

bool ring_put_back(struct ring_receiver *receiver, const void *byte)
{
	const uintptr_t held = (uintptr_t)receiver->held, at = (uintptr_t)byte - held;
	uint32_t start = 0;

	if ((uintptr_t)byte <= held || at > receiver->n_held)
		return false;
	/* Those that were taken have the right sizes. */
	while (start < receiver->n_given) {
		const struct message_head *head = (void *)(receiver->held + start);

		if (at <= start + head->size) {
			receiver->n_given = start;
			break;
		}
		start += head->size;
	}
	return true;
}

bool ring_has_whole(const struct ring_receiver *receiver)
{
	struct ring_receiver copy = *receiver;
	const struct message_head *message;

	return ring_take(&copy, &message) != 0;
}

bool ring_has_next(const struct ring_receiver *receiver)
{
	return receiver->n_given < receiver->n_held;
}

bool ring_has_more(const struct ring_receiver *receiver)
{
	return shm_load32(&receiver->control->tail) != receiver->head;
}

void ring_sleep(struct ring_receiver *receiver, int timeout_ms)
{
	shm_store32(&receiver->page->worker_asleep, 1);
	shm_fence();
	if (!ring_has_more(receiver))
		shm_wait(&receiver->control->tail, receiver->head, timeout_ms);
	shm_store32(&receiver->page->worker_asleep, 0);
}

void ring_pause(struct ring_receiver *receiver, int timeout_ms)
{
	uint32_t __shm *tail = &receiver->control->tail;

	shm_wait(tail, shm_load32(tail), timeout_ms);
}

void ring_interrupt(struct ring_receiver *receiver)
{
	shm_wake(&receiver->control->tail);
}
