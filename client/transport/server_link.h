/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_LINK_H
#define SERVER_LINK_H

/*
 * The one connection of this process to its server, with its memories. Opened once
 * and never closed: the kernel closes it when the process ends, and so the server
 * notices the end.
 */

#include <stdatomic.h>

#include "frame.h"
#include "lock.h"
#include "ring.h"
#include "client/util/api.h"
#include "client/util/descriptor.h"

struct server_memories {
	struct ring_control __shm *ring;
	uint8_t __shm *staging;
	const struct page __shm *page;
};

struct server_link {
	struct descriptor sock;
	_Atomic uint32_t is_dead;     /* the server has hung up */
	_Atomic uint32_t is_used;     /* the server has opened a GPU for this process */
	_Atomic uint32_t late_errors; /* the count in page->error of the last reported error */
	struct ring_sender sender;
	struct ring_control __shm *control;
	const struct page __shm *page;
	uint8_t __shm *staging;
	bool continues;            /* MPS_ON_FAULT=continue */
	bool is_without_helpers;   /* MPS_DISABLE=helpers: one thread copies */
	bool is_without_long_spin; /* MPS_DISABLE=spin: a thread that waits sleeps after 50 us */
	struct lock reading;       /* held from a question until its descriptor has been received */
	struct lock sending;       /* held from a descriptor until its message has been sent */
};

extern struct server_link server;

/*
 * Connects this process to its server. 0; on failure -errno or a HANDSHAKE_*
 * (handshake.h), `why' says where and what, and `ret_result' is the result of every
 * later call.
 */
int server_link_open(struct server_link *link, char *why, size_t why_size, CUresult *ret_result);

/* Maps the memories of a WELCOME. The caller owns the maps, also on failure. */
int server_link_map_memories(
	const int fds[FRAME_WELCOME_FDS], struct server_memories *ret_memories);

/* For a forked child, before it connects itself: drops the parent's connection. */
void server_link_forget(struct server_link *link);

/* Checks whether the server still has its end open (a system call); for ring_push(). */
bool server_link_is_alive(void *link);

/* How many clients of the server have work on a GPU, this one among them: at least 1. */
static inline unsigned server_link_clients_at_work(const struct server_link *link)
{
	return MAX(shm_load32(&link->page->n_at_work), 1u);
}

/* Whether the operator has terminated this process's work: no other server will accept it. */
static inline bool server_link_is_terminated(const struct server_link *link)
{
	return shm_load32(&link->page->fault) == CUDA_ERROR_MPS_CLIENT_TERMINATED;
}

/* Whether the operator has suspended this process's work: answers take as long as that. */
static inline bool server_link_is_suspended(const struct server_link *link)
{
	return shm_load32(&link->page->is_suspended);
}

/* All further calls fail; the first time, a line says which side has ended the connection. */
void server_link_give_up(struct server_link *link);

/* Whether the server has closed its end, or the program this one. */
bool server_link_has_hung_up(const struct server_link *link);

/* Whether the server has closed its end or has reported a GPU fault. */
bool server_link_is_lost(const struct server_link *link);

/*
 * Like server_link_is_alive(), for a thread that waits for an answer: if the server
 * ended before it opened a GPU for this process, the next server has the question
 * by now (reconnect.h).
 */
bool server_link_wait_goes_on(struct server_link *link);

/*
 * Reads the FRAME_MEMORY that precedes an answer. Only the thread that holds
 * server_link::reading reads the connection. The caller owns the descriptor.
 * -errno: the frame is missing, and all further calls fail.
 */
int server_link_read_memory(struct server_link *link, uint64_t address, uint64_t size, int *ret_fd);

/*
 * The result of every call after a GPU fault. The first call also logs it. While the session moves
 * to another server, waits for that.
 */
CUresult server_link_fault(const struct server_link *link, uint32_t fault);

/*
 * The result of every further call after a GPU fault or the server's end; otherwise
 * CUDA_SUCCESS.
 */
static inline CUresult server_link_check(const struct server_link *link)
{
	uint32_t fault = shm_load32(&link->page->fault);

	if (unlikely(fault))
		return server_link_fault(link, fault);
	if (unlikely(atomic_load_explicit(&link->is_dead, memory_order_relaxed)))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	return CUDA_SUCCESS;
}

/*
 * The asynchronous errors that calls have returned so far; and the last error, if there was one
 * since a call of that, which a call may have returned or not.
 */
uint32_t server_link_count_errors(const struct server_link *link);
CUresult server_link_error_since(const struct server_link *link, uint32_t count);

/* Returns an asynchronous error once, for the next synchronising call. */
CUresult server_link_late_error(struct server_link *link);

#endif
