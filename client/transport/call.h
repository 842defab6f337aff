/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALL_H
#define CALL_H

/*
 * One message to the server, and its answer if it has one. Any thread. The
 * generated send_X() functions call these.
 */

#include "ring.h"
#include "client/util/api.h"

/* Sends a message without an answer. `msg' is the zeroed struct with its op set. */
CUresult call_post(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails);

/*
 * Sends a message and waits for its answer. On CUDA_SUCCESS only, fills `ret_fixed'
 * with exactly `fixed_size' bytes and `ret_tail' with at most `tail_max'.
 * CUDA_ERROR_MPS_RPC_FAILURE: the server has ended, or its answer is malformed.
 */
CUresult call_ask(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails, void *ret_fixed, uint32_t fixed_size, void *ret_tail, uint32_t tail_max,
	uint32_t *ret_tail_size);

/*
 * How long a waiter spins before it sleeps, and how long it sleeps before it checks
 * the connection.
 */
#define CALL_SPIN_NS 50000
#define CALL_ROUND_MS 100

#endif
