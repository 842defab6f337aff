/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sessions: made and freed by the loop, cleaned up by their worker.
 *
 * Invariant: what a session has in the driver is made and given back by its
 * worker alone, so that nothing of it needs a lock.
 */

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "server/memory/array.h"
#include "async_close.h"
#include "server/bound.h"
#include "server/stream/context_share.h"
#include "server/driver/deferred.h"
#include "server/stream/event.h"
#include "fault.h"
#include "server/graph/graph.h"
#include "server/driver/green.h"
#include "server/memory/host.h"
#include "server/memory/ipc.h"
#include "server/module/library.h"
#include "server/module/linker.h"
#include "session.h"
#include "server/copy/staging.h"
#include "server/util/thread.h"
#include "server/memory/virtual.h"
#include "server/worker.h"

#define TABLES_OF(session)                                                                         \
	&(session)->greens, &(session)->context_shares, &(session)->linkers,                       \
		&(session)->libraries, &(session)->kernels, &(session)->events,                    \
		&(session)->graphs, &(session)->allocations, &(session)->arrays,                   \
		&(session)->textures

/* The three memories of a session and what is told to the client. */
static int make_memories(struct session *session, int fds[FRAME_WELCOME_FDS])
{
	void *page;
	int r;

	r = shm_create("mps-ring", RING_BYTES, SHM_THEIRS, &fds[0], &session->ring);
	if (r < 0)
		return r;
	r = shm_create("mps-staging", STAGING_SIZE, SHM_THEIRS, &fds[1], &session->staging);
	if (r < 0)
		return r;
	r = shm_create("mps-page", PAGE_BYTES, SHM_OURS, &fds[2], &page);
	if (r < 0)
		return r;
	session->page = page;
	devices_tell(session->page);
	return ring_receiver_init(&session->receiver, session->ring, session->page);
}

/* What a session costs with its threads, whatever its client does. */
#define SESSION_BASE                                                                               \
	(sizeof(struct session) + RING_RUN_MAX + (1 + WAITERS_MAX) * (uint64_t)KEPT_THREAD)

static int open_account(struct session *session, struct quota *quota)
{
	struct account *account =
		account_new(SESSION_BASE, (struct account_owner){bound_met, session}, quota);
	struct object_table *const tables[] = {TABLES_OF(session)};

	if (!account)
		return -ENOMEM;
	session->account = session->variables.account = account;
	for (unsigned i = 0; i < ARRAY_SIZE(tables); i++)
		tables[i]->account = account;
	return 0;
}

static void session_freep(struct session **session)
{
	session_free(*session);
}

static void limits_init(struct frame_limits *limits)
{
	limits->active_threads = ACTIVE_THREADS_ALL;
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		limits->memory[i] = UINT64_MAX;
}

int session_new(uint32_t id, struct quota *quota, struct session **ret_session,
	int ret_fds[FRAME_WELCOME_FDS])
{
	_cleanup_(session_freep) struct session *session = calloc(1, sizeof(*session));
	int fds[FRAME_WELCOME_FDS] = {-EBADF, -EBADF, -EBADF};
	int r;

	if (!session)
		return -ENOMEM;
	session->id = id;
	limits_init(&session->limits);
	session->active_threads = ACTIVE_THREADS_ALL;
	pthread_mutex_init(&session->gates_lock, NULL);
	frame_reader_init(&session->images, async_close);
	waiters_init(&session->waiters);
	r = open_account(session, quota);
	if (r == 0)
		r = make_memories(session, fds);
	if (r < 0) {
		for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
			closep(&fds[i]);
		return r;
	}
	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		ret_fds[i] = fds[i];
	*ret_session = TAKE_PTR(session);
	return 0;
}

static void unmap(void *map, size_t size)
{
	if (map)
		munmap(map, size);
}

void session_free(struct session *session)
{
	if (!session)
		return;
	frame_reader_fini(&session->images);
	ring_receiver_fini(&session->receiver);
	unmap(session->ring, RING_BYTES);
	unmap(session->staging, STAGING_SIZE);
	unmap(session->page, PAGE_BYTES);
	pthread_mutex_destroy(&session->gates_lock);
	group_unref(session->group);
	account_close(session->account);
	free(session);
}

/* To the client its GPUs have as many SMs as its partitions. */
static void tell_partitions(struct session *session)
{
	for (uint32_t i = 0; i < devices_count(); i++) {
		uint32_t n_sms = sm_share_of_partition(session, device_get(i));

		if (n_sms > 0)
			session->page->device[i]
				.attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] =
				(int32_t)n_sms;
	}
}

void session_limit(struct session *session, const struct frame_limits *limits, struct group *group)
{
	struct frame_limits *own = &session->limits;

	*own = *limits;
	own->active_threads = MIN(MAX(own->active_threads, 1u), ACTIVE_THREADS_ALL);
	session->group = group;
	session->group_threads = group ? group->limits.active_threads : ACTIVE_THREADS_ALL;
	if (group) {
		own->active_threads = MIN(own->active_threads, group->limits.active_threads);
		own->priority = MAX(own->priority, group->limits.priority);
	}
	session->page->active_threads = own->active_threads;
	if (own->is_partitioned)
		tell_partitions(session);
	session_tell_memory(session);
}

static uint64_t group_memory_limit(const struct session *session, uint32_t ordinal)
{
	return session->group ? quota_limit(&session->group->memory[ordinal]) : UINT64_MAX;
}

void session_tell_memory(struct session *session)
{
	for (uint32_t i = 0; i < devices_count(); i++) {
		uint64_t total = MIN(device_get(i)->facts.total_memory, session->limits.memory[i]);

		total = MIN(total, group_memory_limit(session, i));
		__atomic_store_n(&session->page->device[i].total_memory, total, __ATOMIC_RELAXED);
	}
}

uint64_t session_memory_limit(const struct session *session, uint32_t ordinal)
{
	return MIN(session->grants[ordinal].memory, group_memory_limit(session, ordinal));
}

int session_start(struct session *session)
{
	return thread_start(&session->thread, "mps-worker", worker_run, session);
}

void session_end(struct session *session)
{
	atomic_store(&session->is_ending, true);
	/* After a fault nothing waits any more, and clients that live may look at their words. */
	if (fault_get() == CUDA_SUCCESS)
		gates_open_here(session);
	ring_interrupt(&session->receiver);
}

void session_set_fault(struct session *session, CUresult fault)
{
	uint32_t none = CUDA_SUCCESS;

	__atomic_compare_exchange_n(&session->page->fault, &none, (uint32_t)fault, false,
		__ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void session_tell_fault(struct session *session, CUresult fault, pid_t pid)
{
	__atomic_store_n(&session->page->fault_pid, pid > 0 ? (uint32_t)pid : FAULT_PID_UNKNOWN,
		__ATOMIC_RELEASE);
	session_set_fault(session, fault);
}

void session_tell_busy(struct session *session, bool is_busy)
{
	if (session->is_busy != is_busy)
		deferred_busy(is_busy);
	session->is_busy = is_busy;
}

void session_drop(struct session *session)
{
	shutdown(session->connection, SHUT_RDWR);
}

/* For who asks later whose fault it was: the kernel goes with its library. */
static void keep_last_words(struct session *session)
{
	if (session->last_kernel)
		memcpy(session->last_kernel_name, session->last_kernel->name,
			sizeof(session->last_kernel_name));
	atomic_store(&session->has_last_words, true);
}

/*
 * The order matters: nothing may go that the GPU still uses, and waiters hold
 * events of streams.
 */
void session_clean_up(struct session *session)
{
	struct object_table *const tables[] = {TABLES_OF(session)};
	bool is_lost;

	atomic_store(&session->is_ending, true);
	keep_last_words(session);
	is_lost = fault_get() != CUDA_SUCCESS || streams_wait(session) != CUDA_SUCCESS;
	gates_fini(session, is_lost);
	text_fini(session, is_lost);
	waiters_fini(session, is_lost);
	graphs_free(session, is_lost);
	streams_free(session, is_lost);
	greens_free(session, is_lost);
	context_shares_free(session, is_lost);
	events_free(session, is_lost);
	textures_free(session);
	arrays_free(session);
	linkers_free(session, is_lost);
	libraries_free(session);
	staging_unpin(session, is_lost);
	host_fini(session, is_lost);
	aliases_fini(session, is_lost);
	virtual_fini(session, is_lost);
	ipc_end(session, is_lost);
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (session->places[i])
			place_free(session, session->places[i], is_lost);
	ranges_fini(&session->variables);
	for (unsigned i = 0; i < ARRAY_SIZE(tables); i++)
		object_table_fini(tables[i]);
	deferred_note_freed();
}
