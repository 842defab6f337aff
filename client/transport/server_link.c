/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The link to the server. Opened by the thread that decides the route, read by any
 * thread.
 *
 * Invariant: a mapped memory has the size that this build expects, and cannot
 * shrink.
 */

#include "server_link.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bounds.h"
#include "disable.h"
#include "follow.h"
#include "frame.h"
#include "handshake.h"
#include "lock.h"
#include "reconnect.h"
#include "wire.h"
#include "client/util/log.h"
#include "client/util/sleep.h"

/* The server sends this frame before its answer. */
#define MEMORY_MS 2000

/*
 * How often to look for the PID of the process that caused a fault, and the pause
 * between two looks.
 */
#define FAULT_PID_TRIES 100
#define FAULT_PID_SLEEP_NS 1000000

struct server_link server = {
	.sock = {.fd = -EBADF},
	.reading = LOCK_INIT(READING),
	.sending = LOCK_INIT(SENDING),
};

/* The maps remain after a failure: the process will not try again. */
static int server_link_map(struct server_link *link, const int fds[FRAME_WELCOME_FDS])
{
	struct server_memories memories = {0};
	int r = server_link_map_memories(fds, &memories);

	if (r < 0)
		return r;
	link->control = memories.ring;
	link->page = memories.page;
	link->staging = memories.staging;
	ring_sender_init(&link->sender, memories.ring, memories.page);
	return 0;
}

int server_link_map_memories(const int fds[FRAME_WELCOME_FDS], struct server_memories *ret_memories)
{
	void __shm *ring = NULL, *staging = NULL, *page = NULL;
	int r = shm_map(fds[0], RING_BYTES, SHM_THEIRS, &ring);

	if (r == 0)
		r = shm_map(fds[1], STAGING_SIZE, SHM_THEIRS, &staging);
	if (r == 0)
		r = shm_map(fds[2], PAGE_BYTES, SHM_OURS, &page);
	*ret_memories = (struct server_memories){.ring = ring, .staging = staging, .page = page};
	if (r != 0)
		return r;
	if (shm_load32(&ret_memories->page->page_bytes) != sizeof(struct page) ||
		shm_load32(&ret_memories->page->n_devices) > DEVICES_MAX)
		return -EBADMSG;
	return 0;
}

static void read_disabled(struct server_link *link)
{
	const char *at = NULL, *word;
	int length;

	while ((word = disable_next_unknown(&at, &length)))
		log_warn(DISABLE_UNKNOWN, length, word);
	link->is_without_helpers = disable_has(DISABLE_HELPERS);
	link->is_without_long_spin = disable_has(DISABLE_SPIN);
}

int server_link_open(struct server_link *link, char *why, size_t why_size, CUresult *ret_result)
{
	struct handshake hands = {.why = why, .why_size = why_size};
	int r = handshake(&hands, false);

	*ret_result = hands.result;
	if (r != 0)
		return r;
	r = server_link_map(link, hands.fds);
	handshake_close_fds(&hands);
	if (r < 0) {
		snprintf(why, why_size, "the memories that the server sent cannot be used: %s",
			strerror(-r));
		close(hands.sock);
		return r;
	}
	descriptor_note(&link->sock, hands.sock);
	link->continues = hands.continues;
	read_disabled(link);
	return 0;
}

void server_link_forget(struct server_link *link)
{
	descriptor_close(&link->sock);
	reconnect_forget();
	*link = (struct server_link){
		.sock = {.fd = -EBADF},
		.reading = LOCK_INIT(READING),
		.sending = LOCK_INIT(SENDING),
	};
}

/* The server learns which process caused a fault a moment after the first client sees the fault. */
static uint32_t fault_pid(const struct server_link *link)
{
	uint32_t pid = shm_load32(&link->page->fault_pid);

	for (unsigned i = 0; pid == 0 && i < FAULT_PID_TRIES; i++) {
		sleep_ns(FAULT_PID_SLEEP_NS);
		pid = shm_load32(&link->page->fault_pid);
	}
	return pid;
}

/* What kernels of this program printed before the fault. */
static void print_last_text(const struct server_link *link)
{
	uint32_t n = MIN(shm_load32(&link->page->n_last_text), (uint32_t)LAST_TEXT_MAX);

	if (n == 0)
		return;
	fwrite(shm_settled(link->page->last_text), 1, n, stdout);
	fflush(stdout);
}

/* Logs one line: what happened, and what to do. */
static void server_link_log_fault(const struct server_link *link, uint32_t fault)
{
	uint32_t pid = fault_pid(link);
	char whose[96] = "this program, or of another client of its server,";

	if (pid == (uint32_t)getpid())
		snprintf(whose, sizeof(whose), "this program");
	else if (pid != 0 && pid != FAULT_PID_UNKNOWN)
		snprintf(whose, sizeof(whose), "process %u, another client of its server,", pid);
	log_error("a kernel of %s failed with %s: all further calls fail; restart the program. %s",
		whose, cuda_result_name(fault),
		fault == CUDA_ERROR_ASSERT ? "server.log contains the message of the assertion"
					   : "mps-control get_last_fault shows details");
}

/* Logs one line: which side has ended the connection, and what to do. */
static void server_link_log_end(const struct server_link *link)
{
	if (!descriptor_is_same(&link->sock))
		log_error(
			"this program has closed the connection to the server, descriptor %d: all "
			"further calls fail. A program that closes descriptors which it has not "
			"opened has to leave those of its libraries open",
			link->sock.fd);
	else
		log_error("the server has ended: all further calls fail; restart the program. "
			  "server.log shows the reason");
}

CUresult server_link_fault(const struct server_link *link, uint32_t fault)
{
	static _Atomic uint32_t is_logged;
	CUresult followed;
	bool is_first;

	if (fault == FAULT_MOVING) {
		followed = follow((struct server_link *)(uintptr_t)link);
		fault = shm_load32(&link->page->fault);
		if (followed != CUDA_SUCCESS || fault == CUDA_SUCCESS || fault == FAULT_MOVING)
			return followed;
	}
	/* The next server is not affected by the fault. */
	if (fault != CUDA_ERROR_MPS_CLIENT_TERMINATED && reconnect_is_possible(link))
		return CUDA_SUCCESS;
	is_first = !atomic_exchange_explicit(&is_logged, 1, memory_order_relaxed);
	if (is_first && fault == CUDA_ERROR_MPS_CLIENT_TERMINATED) {
		log_error("the operator has terminated this client (terminate_client), or another "
			  "client "
			  "needs the memory that it has borrowed (server.log): "
			  "all further calls fail; restart the program to use the GPU");
	} else if (is_first && fault == CUDA_ERROR_MPS_RPC_FAILURE) {
		server_link_log_end(link);
	} else if (is_first) {
		print_last_text(link);
		server_link_log_fault(link, fault);
	}
	return (CUresult)fault;
}

/* Pending bytes do not count: another thread may be about to read them as a frame. */
bool server_link_has_hung_up(const struct server_link *link)
{
	struct pollfd pfd = {.fd = link->sock.fd, .events = POLLRDHUP};

	return !descriptor_is_same(&link->sock) || poll(&pfd, 1, 0) > 0;
}

bool server_link_is_lost(const struct server_link *link)
{
	uint32_t fault = shm_load32(&link->page->fault);

	return server_link_has_hung_up(link) || (fault && fault != FAULT_MOVING);
}

void server_link_give_up(struct server_link *link)
{
	if (!atomic_exchange_explicit(&link->is_dead, 1, memory_order_acq_rel))
		server_link_log_end(link);
}

bool server_link_is_alive(void *user)
{
	struct server_link *link = user;

	if (server_link_check(link) != CUDA_SUCCESS)
		return false;
	if (!server_link_has_hung_up(link))
		return true;
	/* A thread that waits for an answer connects to the next server. */
	if (!reconnect_is_possible(link))
		server_link_give_up(link);
	return false;
}

bool server_link_wait_goes_on(struct server_link *link)
{
	if (!reconnect_is_possible(link) || server_link_is_terminated(link))
		return server_link_is_alive(link);
	if (!server_link_is_lost(link)) {
		(void)server_link_check(link);
		return true;
	}
	if (reconnect(link) == 0)
		return true;
	server_link_give_up(link);
	return false;
}

int server_link_read_memory(struct server_link *link, uint64_t address, uint64_t size, int *ret_fd)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	const struct frame_memory *frame = (const void *)reader.bytes;
	int r;

	frame_reader_init(&reader, frame_close_fd);
	r = descriptor_is_same(&link->sock) ? frame_read_wait(&reader, link->sock.fd, MEMORY_MS)
					    : -EBADF;
	if (r == 0 && (frame->head.type != FRAME_MEMORY || frame->address != address ||
			      frame->size != size))
		r = -EBADMSG;
	if (r == 0)
		*ret_fd = frame_take_fd(&reader, 0);
	else
		server_link_give_up(link);
	return r;
}

/* Until the server gets this number, it launches nothing that may depend on what failed. */
static void server_link_ack_errors(struct server_link *link)
{
	static struct lock lock = LOCK_INIT(ERROR_ACKS);

	lock_hold(&lock);
	shm_store32(&link->control->errors_taken,
		atomic_load_explicit(&link->late_errors, memory_order_relaxed));
}

uint32_t server_link_count_errors(const struct server_link *link)
{
	return atomic_load_explicit(&link->late_errors, memory_order_relaxed);
}

CUresult server_link_error_since(const struct server_link *link, uint32_t count)
{
	uint64_t word = shm_load64(&link->page->error);

	return (uint32_t)(word >> 32) == count ? CUDA_SUCCESS : (CUresult)(uint32_t)word;
}

CUresult server_link_late_error(struct server_link *link)
{
	uint64_t word = shm_load64(&link->page->error);
	uint32_t count = (uint32_t)(word >> 32);

	if (likely(count == atomic_load_explicit(&link->late_errors, memory_order_relaxed)))
		return CUDA_SUCCESS;
	if (atomic_exchange_explicit(&link->late_errors, count, memory_order_relaxed) == count)
		return CUDA_SUCCESS;
	server_link_ack_errors(link);
	return (CUresult)(uint32_t)word;
}
