/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The page of a session that moves to another server. Any thread.
 *
 * Invariant: the new page has what the old one had, so a thread that reads the page meanwhile sees
 * the same answers and the same progress before and after the exchange.
 */

#include "follow.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "reconnect.h"
#include "client/util/sleep.h"

/* How often to look for the page, and how long the frame may take to be complete. */
#define LOOK_NS 1000000
#define FRAME_MS 2000

static struct lock exchange = LOCK_INIT(NEW_PAGE);

void follow_forget(void)
{
	exchange = (struct lock)LOCK_INIT(NEW_PAGE);
}

static bool is_moving(const struct server_link *link)
{
	return shm_load32(&link->page->fault) == FAULT_MOVING;
}

/*
 * Whether the next frame is the page. Another thread may be about to read a FRAME_MEMORY, or its
 * second half, which begins with the zeros of an address.
 */
static bool page_has_come(const struct server_link *link)
{
	const struct frame_head expected = frame_head(FRAME_PAGE, 1);
	struct frame_head head;
	ssize_t n = recv(link->sock.fd, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	return n == sizeof(head) && memcmp(&head, &expected, sizeof(head)) == 0;
}

static int receive_page(const struct server_link *link, int *ret_fd)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	int r;

	frame_reader_init(&reader, frame_close_fd);
	r = frame_read_wait(&reader, link->sock.fd, FRAME_MS);
	if (r == 0)
		*ret_fd = frame_take_fd(&reader, 0);
	return r;
}

/* In one step: a thread that reads there meanwhile sees the old page or the new one. */
static int take_page(struct server_link *link)
{
	_cleanup_close_ int fd = -EBADF;
	void __shm *page = NULL;
	int r = receive_page(link, &fd);

	if (r == 0)
		r = shm_map(fd, PAGE_BYTES, SHM_OURS, &page);
	if (r < 0)
		return r;
	if (mremap(shm_raw(page), PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
		    shm_raw(link->page)) != MAP_FAILED)
		return 0;
	r = -errno;
	munmap(shm_raw(page), PAGE_BYTES);
	return r;
}

/*
 * Takes the page if it has come. A thread that connects to the next server replaces the connection
 * and the page together, so it does not do so meanwhile. 1: taken. 0: not now.
 */
static int try_take_page(struct server_link *link)
{
	bool has_come;
	int r = 0;

	if (!reconnect_try_claim())
		return 0;
	has_come = is_moving(link) && page_has_come(link);
	if (has_come)
		r = take_page(link);
	reconnect_release();
	return r < 0 ? r : has_come;
}

CUresult follow(struct server_link *link)
{
	int r;

	lock_hold(&exchange);
	while (is_moving(link)) {
		/* A thread that waits for an answer may connect to the next server. */
		if (server_link_has_hung_up(link)) {
			if (reconnect_is_possible(link))
				return CUDA_SUCCESS;
			server_link_give_up(link);
			return CUDA_ERROR_MPS_RPC_FAILURE;
		}
		r = try_take_page(link);
		if (r < 0) {
			server_link_give_up(link);
			return CUDA_ERROR_MPS_RPC_FAILURE;
		}
		if (r == 0)
			sleep_ns(LOOK_NS);
	}
	return CUDA_SUCCESS;
}
