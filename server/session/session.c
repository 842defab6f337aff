/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sessions: made and freed by the loop.
 *
 * Invariant: only the worker makes and frees driver objects of the session, so they need no
 * lock.
 */

#include "session.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include "lock.h"
#include "session_part.h"
#include "server/record/record_script.h"

/* How long a client may take to make room for a frame. */
#define FRAME_SEND_MS 100

/* Makes a memory that both sides write, or maps the one that there is. */
static int get_memory(const char *name, size_t size, int *fd, void __shm **ret_map)
{
	return *fd < 0 ? shm_create(name, size, SHM_THEIRS, fd, ret_map)
		       : shm_map(*fd, size, SHM_THEIRS, ret_map);
}

/* The three memories of a session. */
static int make_memories(struct session *session, int fds[FRAME_WELCOME_FDS])
{
	void __shm *ring, *page;
	int r;

	r = get_memory("mps-ring", RING_BYTES, &fds[0], &ring);
	if (r < 0)
		return r;
	session->ring = ring;
	r = get_memory("mps-staging", STAGING_SIZE, &fds[1], &session->staging);
	if (r < 0)
		return r;
	r = shm_create("mps-page", PAGE_BYTES, SHM_OURS, &fds[2], &page);
	if (r < 0)
		return r;
	session->page = page;
	return ring_receiver_init(&session->receiver, session->ring, session->page);
}

/* The memory of the session's parts follows it. */
#define SESSION_SIZE ALIGN_UP(sizeof(struct session), _Alignof(max_align_t))

static int open_account(struct session *session, struct resource_quotas *quotas,
	bool (*on_full)(void *session, enum resource resource, uint64_t amount, unsigned round))
{
	/* What a session costs with its threads, whatever its client does. */
	const uint64_t base = SESSION_SIZE + session_parts_size() + RING_RUN_MAX + KEPT_THREAD +
			      session_parts_kept();
	struct account *account =
		account_new(base, (struct account_owner){on_full, session}, quotas);

	if (!account)
		return -ENOMEM;
	session->account = session->variables.account = account;
	for (unsigned i = 0; i < ARRAY_SIZE(session->tables); i++)
		session->tables[i].account = account;
	record_init(&session->record, account);
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
		limits->memory[i] = limits->soft[i] = UINT64_MAX;
}

int session_new_moved(uint32_t id, struct resource_quotas *quotas,
	bool (*on_full)(void *session, enum resource resource, uint64_t amount, unsigned round),
	struct session **ret_session, int memories[FRAME_WELCOME_FDS])
{
	_cleanup_(session_freep) struct session *session =
		calloc(1, SESSION_SIZE + session_parts_size());
	int r;

	if (!session)
		return -ENOMEM;
	session->id = id;
	limits_init(&session->limits);
	session->active_threads = session->group_threads = ACTIVE_THREADS_ALL;
	session->n_marks = DEVICES_MAX;
	lock_init(&session->pending_waits_lock, LOCK_PENDING_WAITS);
	last_launch_init(&session->last_launch);
	r = open_account(session, quotas, on_full);
	if (r == 0)
		r = make_memories(session, memories);
	if (r < 0)
		return r;
	session_parts_begin(session, (uint8_t *)session + SESSION_SIZE);
	*ret_session = TAKE_PTR(session);
	return 0;
}

int session_new(uint32_t id, struct resource_quotas *quotas,
	bool (*on_full)(void *session, enum resource resource, uint64_t amount, unsigned round),
	struct session **ret_session, int ret_fds[FRAME_WELCOME_FDS])
{
	int fds[FRAME_WELCOME_FDS] = {-EBADF, -EBADF, -EBADF};
	int r = session_new_moved(id, quotas, on_full, ret_session, fds);

	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		if (r < 0)
			closep(&fds[i]);
		else
			ret_fds[i] = fds[i];
	return r;
}

void session_free(struct session *session)
{
	if (!session)
		return;
	ring_receiver_fini(&session->receiver);
	shm_unmap(session->ring, RING_BYTES);
	shm_unmap(session->staging, STAGING_SIZE);
	shm_unmap(session->page, PAGE_BYTES);
	last_launch_fini(&session->last_launch);
	lock_fini(&session->pending_waits_lock);
	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++)
		group_unref(session_group(session, i));
	record_fini(&session->record);
	record_script_free(session->script);
	pack_fini(&session->pack);
	account_close(session->account);
	free(session);
}

void session_set_fault(struct session *session, CUresult fault)
{
	shm_replace32(&session->page->fault, CUDA_SUCCESS, (uint32_t)fault);
}

void session_notify_fault(struct session *session, CUresult fault, pid_t pid)
{
	shm_store32(&session->page->fault_pid, pid > 0 ? (uint32_t)pid : FAULT_PID_UNKNOWN);
	session_set_fault(session, fault);
}

/* As dispatch.h declares them. */
#define LOOK_UP(type, table)                                                                       \
	struct type *session_##type(struct session *session, uint32_t id)                          \
	{                                                                                          \
		return handle_get(&session->table, id);                                            \
	}

LOOK_UP(green, greens)
LOOK_UP(context_share, context_shares)
LOOK_UP(linker, linkers)
LOOK_UP(library, libraries)
LOOK_UP(kernel, kernels)
LOOK_UP(event, events)
LOOK_UP(graph, graphs)
LOOK_UP(allocation, allocations)
LOOK_UP(array, arrays)
LOOK_UP(texture, textures)

CUresult session_object_new(
	struct handle_table *table, uint32_t id, uint64_t size, uint64_t kept, void *ret_object)
{
	void *object = account_alloc(table->account, size, kept);
	int r = object ? handle_put(table, id, object) : -ENOMEM;

	if (r < 0) {
		account_free(object);
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	}
	*(void **)ret_object = object;
	return CUDA_SUCCESS;
}

void session_forget_objects(struct session *session)
{
	ranges_fini(&session->variables);
	record_fini(&session->record);
	for (unsigned i = 0; i < ARRAY_SIZE(session->tables); i++)
		handle_table_fini(&session->tables[i]);
}

void session_note_suspension(struct session *session, enum suspension state)
{
	if (atomic_exchange(&session->suspension, state) != state)
		session->on_news(session->on_news_arg);
}

void session_drop(struct session *session)
{
	shutdown(session->connection, SHUT_RDWR);
}

CUresult session_send_memory(struct session *session, uint64_t address, uint64_t size, int fd)
{
	struct frame_memory frame = {.address = address, .size = size};

	frame_init(&frame, FRAME_MEMORY, 1);
	if (frame_send(session->connection, &frame, &fd, FRAME_SEND_MS) == 0)
		return CUDA_SUCCESS;
	session_drop(session);
	return CUDA_ERROR_MPS_RPC_FAILURE;
}
