/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connects to the next server. Any thread that waits for an answer.
 *
 * Invariant: the memories of a link keep their addresses. A thread that reads them
 * meanwhile sees the old server's memory or the next one's.
 */

#include "reconnect.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "follow.h"
#include "frame.h"
#include "handshake.h"
#include "lock.h"
#include "client/util/log.h"
#include "client/util/sleep.h"

/* The server reads a frame when it reaches the frame's message, perhaps after much other work. */
#define SEND_MS 60000

/* How often to look whether the operator has resumed this process. */
#define SUSPENDED_SLEEP_NS 10000000

/* How often to look whether another thread has taken its page. */
#define CLAIM_SLEEP_NS 1000000

#define FRAME_BYTES 64
/* After so many servers have ended, this process gives up. */
#define SERVERS_MAX 8

struct kept_frame {
	struct kept_frame *next;
	_Alignas(8) uint8_t bytes[FRAME_BYTES];
	struct descriptor file;
};

static struct {
	struct lock lock;      /* protects the frames */
	struct lock exchanges; /* held by the thread that connects to the next server */
	struct kept_frame *frames, **last;
	unsigned n_servers;
	atomic_bool is_claimed; /* a thread replaces the page or the connection */
} kept = {
	.lock = LOCK_INIT(KEPT_FRAMES),
	.exchanges = LOCK_INIT(SERVER_EXCHANGE),
	.last = &kept.frames,
};

/* ---- frames */

static bool keep_frame(const void *frame, int fd)
{
	const struct frame_head *head = frame;
	struct kept_frame *copy = calloc(1, sizeof(*copy));

	if (!copy || head->size > sizeof(copy->bytes)) {
		free(copy);
		return false;
	}
	memcpy(copy->bytes, frame, head->size);
	descriptor_note(&copy->file, descriptor_raise(fcntl(fd, F_DUPFD_CLOEXEC, 0)));
	if (copy->file.fd < 0) {
		free(copy);
		return false;
	}
	*kept.last = copy;
	kept.last = &copy->next;
	return true;
}

/* Under the lock. */
static void forget_frames(void)
{
	while (kept.frames) {
		struct kept_frame *frame = LIST_POP(kept.frames);

		descriptor_close(&frame->file);
		free(frame);
	}
	kept.last = &kept.frames;
}

/* The server reads no frames meanwhile, and the socket takes only so many. */
static void wait_while_suspended(struct server_link *link)
{
	while (server_link_is_suspended(link) && server_link_is_alive(link))
		sleep_ns(SUSPENDED_SLEEP_NS);
}

CUresult reconnect_send_frame(struct server_link *link, const void *frame, int fd)
{
	bool is_kept = false;
	int r;

	wait_while_suspended(link);
	lock_take(&kept.lock);
	if (reconnect_is_possible(link))
		is_kept = keep_frame(frame, fd);
	r = descriptor_is_same(&link->sock) ? frame_send(link->sock.fd, frame, &fd, SEND_MS)
					    : -EBADF;
	lock_release(&kept.lock);
	/*
	 * A thread that waits for the answer notices that the server ended, and the next server
	 * gets the frame.
	 */
	if (r == 0 || is_kept)
		return CUDA_SUCCESS;
	/* The connection may contain half a frame: nothing more can be sent on it. */
	server_link_give_up(link);
	return CUDA_ERROR_MPS_RPC_FAILURE;
}

void reconnect_end(struct server_link *link)
{
	if (atomic_exchange_explicit(&link->is_used, 1, memory_order_acq_rel))
		return;
	lock_hold(&kept.lock);
	forget_frames();
}

void reconnect_forget(void)
{
	kept.lock = (struct lock)LOCK_INIT(KEPT_FRAMES);
	kept.exchanges = (struct lock)LOCK_INIT(SERVER_EXCHANGE);
	kept.n_servers = 0;
	atomic_store(&kept.is_claimed, false);
	follow_forget();
	forget_frames();
}

/* ---- the next server */

bool reconnect_try_claim(void)
{
	return !atomic_exchange_explicit(&kept.is_claimed, true, memory_order_acquire);
}

void reconnect_release(void)
{
	atomic_store_explicit(&kept.is_claimed, false, memory_order_release);
}

static void unmap_memories(const struct server_memories *memories)
{
	shm_unmap(memories->ring, RING_BYTES);
	shm_unmap(memories->staging, STAGING_SIZE);
	if (memories->page)
		munmap(shm_raw(memories->page), PAGE_BYTES);
}

/* The facts that the program has read about its GPUs must remain true. */
static bool is_same_machine(const struct page __shm *old_page, const struct page __shm *new_page)
{
	const struct page *before = shm_settled(old_page), *page = shm_settled(new_page);

	if (page->init_result != before->init_result ||
		page->driver_version != before->driver_version ||
		page->n_devices != before->n_devices)
		return false;
	for (uint32_t i = 0; i < page->n_devices; i++)
		if (memcmp(page->device[i].uuid, before->device[i].uuid,
			    sizeof(page->device[i].uuid)) != 0)
			return false;
	return true;
}

/* In one step: a thread that reads there meanwhile sees the old mapping or the new one. */
static bool move_mapping(const void __shm *from, size_t size, const void __shm *to)
{
	return mremap(shm_raw(from), size, size, MREMAP_MAYMOVE | MREMAP_FIXED, shm_raw(to)) !=
	       MAP_FAILED;
}

/*
 * Moves the new memories to the addresses of the old ones. After a failure half-way
 * the link is unusable.
 */
static int replace_memories(const struct server_link *link, struct server_memories *memories)
{
	if (!move_mapping(memories->page, PAGE_BYTES, link->page))
		return -errno;
	memories->page = NULL;
	if (!move_mapping(memories->staging, STAGING_SIZE, link->staging))
		return -errno;
	memories->staging = NULL;
	if (!move_mapping(memories->ring, RING_BYTES, link->control))
		return -errno;
	memories->ring = NULL;
	return 0;
}

static int send_frames(int sock)
{
	int r = 0;

	for (const struct kept_frame *frame = kept.frames; frame && r == 0; frame = frame->next)
		r = descriptor_is_same(&frame->file)
			    ? frame_send(sock, frame->bytes, &frame->file.fd, SEND_MS)
			    : -EBADF;
	return r;
}

/*
 * Sends all earlier messages again. They are in the ring from its beginning on,
 * because the ring has never wrapped. Under the locks of the frames and of the
 * sender.
 */
static int hand_on_messages(
	struct server_link *link, const struct handshake *hands, struct server_memories *memories)
{
	struct ring_sender *sender = &link->sender;
	int r;

	if (!is_same_machine(link->page, memories->page) || sender->tail > RING_SIZE)
		return -ESTALE;
	r = send_frames(hands->sock);
	if (r < 0)
		return r;
	/* Only this process has written there. */
	shm_copy_in(ring_data(memories->ring), shm_settled(sender->data), sender->tail);
	r = descriptor_replace(&link->sock, hands->sock);
	if (r < 0)
		return r;
	r = replace_memories(link, memories);
	if (r < 0)
		return r;
	sender->head = 0;
	shm_store32(&link->control->tail, sender->tail);
	shm_fence();
	shm_wake(&link->control->tail);
	return 0;
}

static int exchange_server(struct server_link *link, const struct handshake *hands)
{
	struct server_memories memories = {0};
	int r = server_link_map_memories(hands->fds, &memories);

	if (r == 0) {
		/* A thread that takes a page (follow.c) waits for no lock meanwhile. */
		while (!reconnect_try_claim())
			sleep_ns(CLAIM_SLEEP_NS);
		lock_take(&kept.lock);
		lock_take(&link->sender.lock);
		r = hand_on_messages(link, hands, &memories);
		lock_release(&link->sender.lock);
		lock_release(&kept.lock);
		reconnect_release();
	}
	unmap_memories(&memories);
	return r;
}

static int meet_next(struct server_link *link)
{
	char why[1024];
	struct handshake hands = {.why = why, .why_size = sizeof(why)};
	int r = ++kept.n_servers < SERVERS_MAX ? handshake(&hands, true) : -ECONNRESET;

	if (r != 0) {
		log_error("the server ended before this program used a GPU, and there is no other "
			  "server: %s",
			kept.n_servers < SERVERS_MAX ? why : "several servers have ended");
		return r < 0 ? r : -ECONNREFUSED;
	}
	r = exchange_server(link, &hands);
	handshake_close_fds(&hands);
	close(hands.sock);
	if (r == 0)
		log_info("the server ended before this program used a GPU: another server takes "
			 "over");
	else
		log_error("the server ended before this program used a GPU, and another server "
			  "cannot take over: %s",
			strerror(-r));
	return r;
}

int reconnect(struct server_link *link)
{
	int r = 0;

	lock_hold(&kept.exchanges);
	/*
	 * Another thread may have connected meanwhile, or given up. A program that has closed the
	 * connection gets no other one.
	 */
	if (!reconnect_is_possible(link) || server_link_is_terminated(link) ||
		!descriptor_is_same(&link->sock))
		r = -ECONNRESET;
	else if (server_link_is_lost(link))
		r = meet_next(link);
	return r;
}
