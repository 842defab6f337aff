/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_LINK_H
#define FAKE_LINK_H

/* A link without a server, for tests of waits: the test writes the timeline of one stream. */

#include <stdlib.h>

#include "client/transport/call.h"
#include "client/transport/server_link.h"
#include "client/stream/stream.h"

#define STREAM 70

struct server_link server;
struct stream streams[STREAMS_MAX];

static struct page *page;

CUresult server_link_fault(const struct server_link *link, uint32_t fault)
{
	(void)link;
	return (CUresult)fault;
}

bool server_link_is_alive(void *link)
{
	return server_link_check(link) == CUDA_SUCCESS;
}

CUresult server_link_late_error(struct server_link *link)
{
	(void)link;
	return CUDA_SUCCESS;
}

static void reach(uint64_t seqno)
{
	uint64_t __shm *reached = shm_at((uintptr_t)&page->timeline[STREAM]);

	shm_store64(reached, seqno);
	shm_wake(shm_low_half(reached));
}

static int link_setup(void **state)
{
	(void)state;
	page = calloc(1, sizeof(*page));
	server.page = shm_at((uintptr_t)page);
	lock_init(&streams[STREAM].lock, LOCK_STREAM);
	return page ? 0 : -1;
}

static int link_teardown(void **state)
{
	(void)state;
	free(page);
	return 0;
}

#endif
