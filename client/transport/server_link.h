/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_LINK_H
#define SERVER_LINK_H

/*
 * The one connection of this process to its server, and the memories that came
 * with it. Opened once and never closed: the kernel does it at the process's
 * end, and that is how the server learns of it.
 */

#include <pthread.h>

#include "client/util/api.h"
#include "frame.h"
#include "ring.h"

struct server_link {
	int sock;
	uint32_t is_dead;     /* atomic: the server has hung up */
	uint32_t is_used;     /* atomic: the server has opened a GPU for this process */
	uint32_t late_errors; /* atomic: count of page->error already told */
	struct ring_sender sender;
	struct ring_control __shm *control;
	const struct page __shm *page;
	uint8_t *staging;
	pthread_mutex_t
		reading; /* held from a question to the descriptor that comes with its answer */
	pthread_mutex_t sending; /* held from a descriptor to the message that it belongs to */
};

extern struct server_link server;

/*
 * Introduces this process. 0; on failure (-errno or a HANDSHAKE_*, see
 * handshake.h) `why' says where and what; `ret_result' is then the CUresult for
 * every later call.
 */
int server_link_open(struct server_link *link, char *why, size_t why_size, CUresult *ret_result);

/* Maps what a WELCOME came with. The caller owns the maps, also on failure. */
int server_link_map_memories(
	const int fds[FRAME_WELCOME_FDS], void **ret_ring, void **ret_staging, void **ret_page);

/* In a forked child, before it is introduced itself: lets go of the parent's connection. */
void server_link_forget(struct server_link *link);

/* Looks whether the server still holds its end (a system call); for ring_push(). */
bool server_link_is_alive(void *link);

/* Whether the operator has ended this process's work: no other server will take it over. */
static inline bool server_link_is_terminated(const struct server_link *link)
{
	return shm_load32(&link->page->fault) == CUDA_ERROR_MPS_CLIENT_TERMINATED;
}

/* Whether it has hung up, or has met a GPU fault. */
bool server_link_is_lost(const struct server_link *link);

/*
 * The same as server_link_is_alive() for a thread that waits for an answer: where the server has
 * gone before it was of use, the next one has the question by now (reconnect.h).
 */
bool server_link_wait_goes_on(struct server_link *link);

/*
 * Reads the FRAME_MEMORY that came before an answer; its reader alone reads the
 * connection, and holds server_link::reading. The caller owns the descriptor. -errno: it
 * is not there, and every call fails from now on.
 */
int server_link_read_memory(struct server_link *link, uint64_t address, uint64_t size, int *ret_fd);

/* What a GPU fault is to every call; the first is told of it on standard error, too. */
CUresult server_link_fault(const struct server_link *link, uint32_t fault);

/* What makes every call fail from now on: a GPU fault, the server's end; else CUDA_SUCCESS. */
static inline CUresult server_link_check(const struct server_link *link)
{
	uint32_t fault = shm_load32(&link->page->fault);

	if (unlikely(fault))
		return server_link_fault(link, fault);
	if (unlikely(__atomic_load_n(&link->is_dead, __ATOMIC_RELAXED)))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	return CUDA_SUCCESS;
}

/* An error that came late, once: what the next synchronising call returns. */
CUresult server_link_late_error(struct server_link *link);

#endif
