/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Messages and answers. Any thread of the application.
 *
 * Invariant: a reply slot belongs to the thread that has set its bit in
 * `slots_taken', from before the message is pushed until the answer has been copied
 * out. After a wait that was given up, the slot is never reused.
 */

#include "call.h"

#include <stdatomic.h>
#include <string.h>

#include "server_link.h"
#include "spin.h"
#include "client/util/sleep.h"

#define TAILS_MAX 4
#define ROOM_ROUND_MS 1000
/* Compiling a library while it is loaded takes minutes at worst. Suspended time does not count. */
#define ANSWER_MAX_NS (600ull * 1000000000ull)
#define TURN_SLEEP_NS 50000u

_Static_assert(REPLY_SLOTS == 64, "a bit each in slots_taken");

static _Atomic uint64_t slots_taken;

/* Takes the bit of a free slot. REPLY_SLOTS: all slots are taken. */
static unsigned reply_slot_try(void)
{
	uint64_t taken = atomic_load_explicit(&slots_taken, memory_order_relaxed);

	while (~taken) {
		uint64_t bit = ~taken & (taken + 1); /* the lowest free bit */

		if (atomic_compare_exchange_weak_explicit(&slots_taken, &taken, taken | bit,
			    memory_order_acquire, memory_order_relaxed))
			return (unsigned)__builtin_ctzll(bit);
	}
	return REPLY_SLOTS;
}

/* If more threads wait than there are slots, they take turns; the server answers quickly. */
static CUresult reply_slot_take(unsigned *ret_slot)
{
	uint64_t give_up_ns = 0;
	CUresult result;

	for (;;) {
		*ret_slot = reply_slot_try();
		if (*ret_slot < REPLY_SLOTS)
			return CUDA_SUCCESS;
		result = server_link_check(&server);
		if (result != CUDA_SUCCESS)
			return result;
		if (give_up_ns == 0 || server_link_is_suspended(&server))
			give_up_ns = now_ns() + ANSWER_MAX_NS;
		else if (now_ns() > give_up_ns)
			return CUDA_ERROR_MPS_RPC_FAILURE;
		sleep_ns(TURN_SLEEP_NS);
	}
}

static void reply_slot_give(unsigned slot)
{
	atomic_fetch_and_explicit(&slots_taken, ~(1ull << slot), memory_order_release);
}

/* A full ring means that the GPU is busy. Wait as long as it takes, as a native call does. */
static CUresult push_message(struct message_head *msg, uint32_t msg_size,
	const struct ring_part *tails, unsigned n_tails)
{
	struct ring_part parts[1 + TAILS_MAX] = {{msg, msg_size}};
	CUresult result = server_link_check(&server);
	int r;

	if (unlikely(result != CUDA_SUCCESS))
		return result;
	if (n_tails > TAILS_MAX)
		return CUDA_ERROR_UNKNOWN;
	for (unsigned i = 0; i < n_tails; i++)
		parts[1 + i] = tails[i];
	do
		r = ring_push(&server.sender, parts, 1 + n_tails, ROOM_ROUND_MS,
			server_link_is_alive, &server);
	while (unlikely(r == -ETIMEDOUT));
	if (likely(r == 0))
		return CUDA_SUCCESS;
	if (r == -EMSGSIZE)
		return CUDA_ERROR_INVALID_VALUE;
	result = server_link_check(&server);
	return result != CUDA_SUCCESS ? result : CUDA_ERROR_MPS_RPC_FAILURE;
}

CUresult call_post(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails)
{
	msg->reply = 0;
	return push_message(msg, msg_size, tails, n_tails);
}

static bool is_answered(unsigned slot, uint32_t seq)
{
	return shm_load32(&server.page->reply[slot].head.seq) == seq;
}

static bool spin_for_answer(unsigned slot, uint32_t seq)
{
	struct spin spin = {.length_ns = CALL_SPIN_NS};

	while (!is_answered(slot, seq))
		if (!spin_again(&spin))
			return false;
	return true;
}

static bool call_wait_answer(unsigned slot, uint32_t seq)
{
	uint32_t __shm *waiting = &server.control->waiting[slot];
	uint64_t give_up_ns;
	bool answered;

	if (likely(spin_for_answer(slot, seq)))
		return true;
	give_up_ns = now_ns() + ANSWER_MAX_NS;
	shm_store32(waiting, 1);
	shm_fence();
	while (!(answered = is_answered(slot, seq))) {
		uint32_t before = shm_load32(&server.page->reply[slot].head.seq);

		if (before != seq)
			shm_wait(&server.page->reply[slot].head.seq, before, CALL_ROUND_MS);
		if (server_link_is_suspended(&server))
			give_up_ns = now_ns() + ANSWER_MAX_NS;
		if (!is_answered(slot, seq) &&
			(!server_link_wait_goes_on(&server) || now_ns() > give_up_ns))
			break;
	}
	shm_store32(waiting, 0);
	return answered || is_answered(slot, seq);
}

/* A call that the server gave up because the client has to end returns what later calls return. */
static CUresult failed(CUresult answered)
{
	CUresult result = CUDA_SUCCESS;

	if (answered == CUDA_ERROR_MPS_RPC_FAILURE)
		result = server_link_check(&server);
	return result != CUDA_SUCCESS ? result : answered;
}

/* Copies the answer out once, and checks that its size fits. */
static CUresult read_answer(unsigned slot, void *ret_fixed, uint32_t fixed_size, void *ret_tail,
	uint32_t tail_max, uint32_t *ret_tail_size)
{
	const uint8_t *reply = shm_settled(&server.page->reply[slot]);
	struct reply_head head;
	uint32_t tail_size;

	memcpy(&head, reply, sizeof(head));
	if (head.result != CUDA_SUCCESS) {
		if (fixed_size > 0 && head.size == fixed_size)
			memcpy(ret_fixed, reply + sizeof(head), fixed_size);
		return failed((CUresult)head.result);
	}
	if (head.size > REPLY_MAX - sizeof(head) || head.size < fixed_size)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	tail_size = head.size - fixed_size;
	if (tail_size > tail_max)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	if (fixed_size > 0)
		memcpy(ret_fixed, reply + sizeof(head), fixed_size);
	if (tail_size > 0)
		memcpy(ret_tail, reply + sizeof(head) + fixed_size, tail_size);
	if (ret_tail_size)
		*ret_tail_size = tail_size;
	return CUDA_SUCCESS;
}

CUresult call_ask(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails, void *ret_fixed, uint32_t fixed_size, void *ret_tail, uint32_t tail_max,
	uint32_t *ret_tail_size)
{
	CUresult result;
	unsigned slot;

	result = reply_slot_take(&slot);
	if (result != CUDA_SUCCESS)
		return result;
	msg->reply = (uint16_t)(slot + 1);
	result = push_message(msg, msg_size, tails, n_tails);
	if (result != CUDA_SUCCESS) {
		reply_slot_give(slot);
		return result;
	}
	if (!call_wait_answer(slot, msg->seq)) {
		/* The answer may still come, so the slot stays taken. */
		result = server_link_check(&server);
		return result != CUDA_SUCCESS ? result : CUDA_ERROR_MPS_RPC_FAILURE;
	}
	result = read_answer(slot, ret_fixed, fixed_size, ret_tail, tail_max, ret_tail_size);
	reply_slot_give(slot);
	return result;
}
