/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Aliases, and the runs of VA windows that contain them. A worker.
 *
 * Invariant: all addresses of a run are taken. A slot that is not NULL belongs to its alias,
 * whose pages are pinned. The server never reads a byte of it: the client may truncate the
 * file at any time, after which the GPU still has the pages, but this process does not
 * (sigbus_guard.c protects the driver's own threads).
 */

#include "alias.h"

#include <sys/mman.h>

#include "fd_kind.h"
#include "host.h"
#include "server/session/recv_fd.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/driver/owner.h"
#include "server/schedule/quiet.h"
#include "server/share/session_device.h"
#include "server/stream/fence.h"
#include "server/stream/pending_wait.h"
#include "do_memory.h"

/* An alias begins at a multiple of this, and at a page of its file. */
#define SLOT_SHIFT 21
#define SLOT (1ull << SLOT_SHIFT)
/* Its mapping, and a hole behind it in its run. */
#define MAPPINGS_OF_ALIAS 2
#define PAGE_MAX (1ull << 30)

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct alias {
	struct alias *next_closing;
	struct alias_run *run;
	uint64_t address;     /* in the client: in the first page */
	uint64_t start, span; /* whole pages of the file */
	struct fence fence;   /* for one that is closing */
	bool is_closing;
};

struct alias_run {
	struct alias_run *next;
	uint64_t base, size;
	uint32_t va_window, n_va_windows; /* the first one; how many */
	uint32_t n_aliases;
	struct alias *slots[];
};

static struct alias *alias_at(const struct session *session, uint64_t address)
{
	for (struct alias_run *run = session->aliases->runs; run; run = run->next)
		if (range_ok(address - run->base, 1, run->size))
			return run->slots[(address - run->base) >> SLOT_SHIFT];
	return NULL;
}

bool alias_has(const struct session *session, uint64_t address, uint64_t size)
{
	const struct alias *alias = alias_at(session, address);

	return alias && !alias->is_closing && size > 0 &&
	       range_ok(address - alias->start, size, alias->span);
}

/* Reserves addresses that are free, and keeps them free. */
static bool alias_reserve(uint64_t address, uint64_t size, int how)
{
	void *wanted = (void *)(uintptr_t)address;
	void *map = mmap(
		wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);

	if (map != MAP_FAILED && map != wanted)
		munmap(map, size);
	return map == wanted;
}

static void run_free(struct alias_run *run)
{
	munmap((void *)(uintptr_t)run->base, run->size);
	owner_give_back(run, run->va_window, run->n_va_windows);
	account_free(run);
}

static bool run_claim(const struct session *session, struct alias_run *run)
{
	const struct owner owner = {session->id, OWNER_HOST};
	uint32_t from = 0;

	for (int i = 0; i < OWNER_TRIES; i++) {
		int va_window = owner_take(run, owner, from, run->n_va_windows);

		if (va_window < 0)
			return false;
		run->va_window = (uint32_t)va_window;
		run->base = owner_address(run->va_window);
		if (alias_reserve(run->base, run->size, MAP_FIXED_NOREPLACE))
			return true;
		owner_give_back(run, run->va_window, run->n_va_windows);
		from = run->va_window + run->n_va_windows;
	}
	return false;
}

static struct alias_run *run_new(struct session *session, uint64_t size)
{
	uint64_t n_va_windows = ALIGN_UP(size, VA_WINDOW) >> VA_WINDOW_SHIFT;
	struct alias_run *run;

	size = n_va_windows << VA_WINDOW_SHIFT;
	run = account_alloc(
		session->account, sizeof(*run) + (size >> SLOT_SHIFT) * sizeof(struct alias *), 0);
	if (!run)
		return NULL;
	run->n_va_windows = (uint32_t)n_va_windows;
	run->size = size;
	if (!run_claim(session, run)) {
		account_free(run);
		return NULL;
	}
	LIST_PUSH(session->aliases->runs, run);
	return run;
}

static uint64_t count_slots(uint64_t size)
{
	return ALIGN_UP(size, SLOT) >> SLOT_SHIFT;
}

static void set_slots(const struct alias *alias, struct alias *value)
{
	uint64_t at = (alias->start - alias->run->base) >> SLOT_SHIFT;
	uint64_t end = at + count_slots(alias->span);

	do
		alias->run->slots[at] = value;
	while (++at < end);
}

/* The address of `size' free bytes in the run; 0: there are none. */
static uint64_t run_find_space(const struct alias_run *run, uint64_t size, uint64_t align)
{
	uint64_t n = count_slots(size), step = MAX(align, SLOT) >> SLOT_SHIFT;
	uint64_t n_slots = run->size >> SLOT_SHIFT, i;

	for (uint64_t first = 0; first + n <= n_slots; first = ALIGN_UP(first + i + 1, step)) {
		for (i = 0; i < n && !run->slots[first + i];)
			i++;
		if (i == n)
			return run->base + (first << SLOT_SHIFT);
	}
	return 0;
}

/* Finds addresses for the alias. */
static bool alias_place(struct session *session, struct alias *alias, uint64_t align)
{
	struct alias_run *run = session->aliases->runs;

	for (; run && alias->start == 0; run = run->next) {
		alias->start = run_find_space(run, alias->span, align);
		alias->run = run;
	}
	if (alias->start == 0) {
		alias->run = run_new(session, alias->span);
		if (!alias->run)
			return false;
		alias->start = alias->run->base;
	}
	set_slots(alias, alias);
	alias->run->n_aliases++;
	return true;
}

static void alias_unpin(struct session *session, const struct alias *alias, uint64_t end)
{
	for (uint64_t at = alias->start; at < end; at += host_cut(at, end - at))
		quiet_unpin(session, (void *)(uintptr_t)at);
}

static void alias_forget(struct alias *alias)
{
	account_give(alias, RESOURCE_MAPPINGS, MAPPINGS_OF_ALIAS);
	account_free(alias);
}

/* Its pages are not pinned any more. */
static void alias_free(struct session *session, struct alias *alias)
{
	pending_waits_forget_passed(session);
	if (!alias_reserve(alias->start, alias->span, MAP_FIXED))
		munmap((void *)(uintptr_t)alias->start, alias->span);
	set_slots(alias, NULL);
	if (--alias->run->n_aliases == 0) {
		LIST_DROP(session->aliases->runs, alias->run);
		run_free(alias->run);
	}
	alias_forget(alias);
}

static CUresult alias_pin(struct session *session, const struct alias *alias)
{
	uint64_t end = alias->start + alias->span, size;
	CUresult result = CUDA_SUCCESS;

	for (uint64_t at = alias->start; at < end; at += size) {
		size = host_cut(at, end - at);
		/*
		 * Pinning blocks the calls of all clients, so do not pin for a client that has
		 * left.
		 */
		if (atomic_load(&session->is_ending) || !host_is_present(at, size))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else
			result = cuda.cuMemHostRegister_v2((void *)(uintptr_t)at, size,
				CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
		if (result != CUDA_SUCCESS) {
			alias_unpin(session, alias, at);
			break;
		}
	}
	return result;
}

static CUresult check_file(
	int fd, uint64_t filesystem, uint64_t inode, uint64_t end, uint64_t *ret_page)
{
	struct fd_facts file;

	if (fd_facts(fd, &file) < 0 || file.page == 0 || (file.page & (file.page - 1)) ||
		file.page > PAGE_MAX)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (file.filesystem != filesystem || file.inode != inode || file.size == 0 ||
		end > ALIGN_UP(file.size, file.page))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_page = file.page;
	return CUDA_SUCCESS;
}

/* Takes the alias; frees it on failure. */
static CUresult alias_map(struct session *session, struct alias *alias, int fd, uint64_t offset,
	uint64_t page, uint64_t *ret_address)
{
	void *map;
	CUresult result;

	if (!alias_place(session, alias, page)) {
		alias_forget(alias);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	alias->address = alias->start + offset % page;
	map = mmap((void *)(uintptr_t)alias->start, alias->span, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, (off_t)(offset - offset % page));
	/* A core of the server contains no memory of clients. */
	if (map != MAP_FAILED)
		madvise(map, alias->span, MADV_DONTDUMP);
	result = map == MAP_FAILED ? CUDA_ERROR_NOT_SUPPORTED : alias_pin(session, alias);
	if (result != CUDA_SUCCESS)
		alias_free(session, alias);
	else
		*ret_address = alias->address;
	return result;
}

static CUresult alias_new(struct session *session, int fd, uint64_t offset, uint64_t size,
	uint64_t page, uint64_t *ret_address)
{
	struct alias *alias;
	uint64_t span;

	span = ALIGN_UP(offset % page + size, page);
	/* It is pinned piece by piece, and may begin within a piece. */
	alias = account_alloc(
		session->account, sizeof(*alias), (span / HOST_PIECE + 2) * KEPT_REGISTRATION);
	if (!alias || !account_take(alias, RESOURCE_MAPPINGS, MAPPINGS_OF_ALIAS)) {
		account_free(alias);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	alias->span = span;
	return alias_map(session, alias, fd, offset, page, ret_address);
}

CUresult do_host_alias(struct session *session, uint32_t device, uint64_t filesystem,
	uint64_t inode, uint64_t offset, uint64_t size, uint64_t *ret_address)
{
	_cleanup_close_ int fd = -EBADF;
	struct session_device *sdev;
	uint64_t page = 0;
	CUresult result;

	if (receive_memory(session, offset, size, false, &fd) < 0)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	aliases_poll(session);
	result = check_file(fd, filesystem, inode, offset + size, &page);
	if (result == CUDA_SUCCESS)
		result = session_device_get_entered(session, device, &sdev);
	if (result == CUDA_SUCCESS)
		result = alias_new(session, fd, offset, size, page, ret_address);
	return result;
}

CUresult do_host_alias_end(struct session *session, uint64_t address)
{
	struct alias *alias = alias_at(session, address);
	CUresult result;

	if (!alias || alias->is_closing || alias->address != address)
		return CUDA_ERROR_INVALID_VALUE;
	result = fence_init(&alias->fence, session);
	if (result != CUDA_SUCCESS)
		return result;
	alias->is_closing = true;
	alias->next_closing = session->aliases->closing;
	session->aliases->closing = alias;
	session->n_freed++;
	aliases_poll(session);
	return CUDA_SUCCESS;
}

void aliases_poll(struct session *session)
{
	struct alias **link = &session->aliases->closing, *alias;

	if (likely(!*link))
		return;
	session_device_enter_any(session);
	while ((alias = *link)) {
		if (!fence_is_passed(&alias->fence)) {
			link = &alias->next_closing;
			continue;
		}
		*link = alias->next_closing;
		alias_unpin(session, alias, alias->start + alias->span);
		alias_free(session, alias);
	}
}

/* Ends the run and all its aliases. */
static void run_end(struct session *session, struct alias_run *run, bool device_lost)
{
	uint64_t i = 0;

	while (i < count_slots(run->size)) {
		struct alias *alias = run->slots[i];

		i += alias ? count_slots(alias->span) : 1;
		if (!alias)
			continue;
		if (!device_lost)
			alias_unpin(session, alias, alias->start + alias->span);
		fence_fini(&alias->fence, device_lost);
		alias_forget(alias);
	}
	run_free(run);
}

/* Ends all aliases. */
static void aliases_fini(struct session *session, bool device_lost)
{
	if (session->aliases->runs && !device_lost)
		session_device_enter_any(session);
	while (session->aliases->runs) {
		struct alias_run *run = LIST_POP(session->aliases->runs);

		run_end(session, run, device_lost);
	}
	*session->aliases = (struct aliases){0};
}

static void aliases_begin(struct session *session, void *part)
{
	session->aliases = part;
}

static bool aliases_are_settled(const struct session *session)
{
	return !session->aliases->closing;
}

static const char *aliases_stay(const struct session *session)
{
	return session->aliases->runs ? "it has registered host memory" : NULL;
}

const struct session_part aliases_part = {
	.stays = aliases_stay,
	.size = sizeof(struct aliases),
	.begin = aliases_begin,
	.is_settled = aliases_are_settled,
	.poll = aliases_poll,
	.end = aliases_fini,
};
