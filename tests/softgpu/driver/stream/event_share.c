/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of an event that processes share. Any thread; the references under the
 * driver's lock.
 */

#include "event_share.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "base.h"
#include "tests/softgpu/driver/ipc.h"

#define PAUSE_NS 50000

struct share_page {
	_Atomic uint64_t recorded, done;
	_Atomic int pid; /* the process of the last record */
};

struct event_share {
	uint32_t refs;
	int fd;
	struct share_page *page;
};

/* Takes `fd'. */
static int share_map(int fd, struct event_share **ret_share)
{
	struct event_share *share = calloc(1, sizeof(*share));
	void *page =
		mmap(NULL, sizeof(struct share_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (!share || page == MAP_FAILED) {
		if (page != MAP_FAILED)
			munmap(page, sizeof(struct share_page));
		free(share);
		close(fd);
		return -ENOMEM;
	}
	*share = (struct event_share){1, fd, page};
	*ret_share = share;
	return 0;
}

int event_share_new(struct event_share **ret_share)
{
	int fd = ipc_memfd_new(sizeof(struct share_page));

	return fd < 0 ? fd : share_map(fd, ret_share);
}

int event_share_open(const struct ipc_ticket *ticket, struct event_share **ret_share)
{
	int fd = ipc_ticket_open(ticket, IPC_EVENT);

	return fd < 0 ? fd : share_map(fd, ret_share);
}

int event_share_ticket(const struct event_share *share, struct ipc_ticket *ret_ticket)
{
	return ipc_ticket_fill(IPC_EVENT, share->fd, sizeof(struct share_page), 0, ret_ticket);
}

struct event_share *event_share_ref(struct event_share *share)
{
	share->refs++;
	return share;
}

void event_share_unref(struct event_share *share)
{
	if (!share || --share->refs > 0)
		return;
	munmap(share->page, sizeof(*share->page));
	close(share->fd);
	free(share);
}

uint64_t event_share_record(struct event_share *share)
{
	atomic_store(&share->page->pid, getpid());
	return atomic_fetch_add(&share->page->recorded, 1) + 1;
}

void event_share_done(struct event_share *share, uint64_t number)
{
	uint64_t done = atomic_load(&share->page->done);

	while (done < number && !atomic_compare_exchange_weak(&share->page->done, &done, number))
		;
}

uint64_t event_share_last(const struct event_share *share)
{
	return atomic_load(&share->page->recorded);
}

bool event_share_reached(const struct event_share *share, uint64_t number)
{
	return atomic_load(&share->page->done) >= number ||
	       (kill(atomic_load(&share->page->pid), 0) < 0 && errno == ESRCH);
}

void event_share_pause(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}
