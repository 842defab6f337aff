/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Aliases, and the runs of VA windows that contain them. A worker, or the thread of
 * server/arrival.c.
 *
 * Invariant: all addresses of a run are taken. A slot that is not NULL belongs to its alias,
 * whose pages are pinned. The server never reads a byte of it: the client may truncate the
 * file at any time, after which the GPU still has the pages, but this process does not
 * (sigbus_guard.c protects the driver's own threads).
 */

#include "alias.h"

#include <sys/mman.h>

#include "alias_run.h"
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

/* Its mapping, and a hole behind it in its run. */
#define MAPPINGS_OF_ALIAS 2

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static struct alias *alias_at(const struct session *session, uint64_t address)
{
	for (struct alias_run *run = session->aliases->runs; run; run = run->next)
		if (range_ok(address - run->base, 1, run->size))
			return run->slots[(address - run->base) >> ALIAS_SLOT_SHIFT];
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

/* At or after window `from'. */
static bool run_claim(const struct session *session, struct alias_run *run, uint32_t from)
{
	const struct owner owner = {session->id, OWNER_HOST};

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

struct alias_run *alias_run_new(struct session *session, uint64_t size, uint32_t from)
{
	uint64_t n_va_windows = ALIGN_UP(size, VA_WINDOW) >> VA_WINDOW_SHIFT;
	struct alias_run *run;

	size = n_va_windows << VA_WINDOW_SHIFT;
	run = account_alloc(session->account,
		sizeof(*run) + (size >> ALIAS_SLOT_SHIFT) * sizeof(struct alias *), 0);
	if (!run)
		return NULL;
	run->n_va_windows = (uint32_t)n_va_windows;
	run->size = size;
	if (!run_claim(session, run, from)) {
		account_free(run);
		return NULL;
	}
	LIST_PUSH(session->aliases->runs, run);
	return run;
}

static uint64_t count_slots(uint64_t size)
{
	return ALIGN_UP(size, ALIAS_SLOT) >> ALIAS_SLOT_SHIFT;
}

static void set_slots(const struct alias *alias, struct alias *value)
{
	uint64_t at = (alias->start - alias->run->base) >> ALIAS_SLOT_SHIFT;
	uint64_t end = at + count_slots(alias->span);

	do
		alias->run->slots[at] = value;
	while (++at < end);
}

/* The address of `size' free bytes in the run; 0: there are none. */
static uint64_t run_find_space(const struct alias_run *run, uint64_t size, uint64_t align)
{
	uint64_t n = count_slots(size), step = MAX(align, ALIAS_SLOT) >> ALIAS_SLOT_SHIFT;
	uint64_t n_slots = run->size >> ALIAS_SLOT_SHIFT, i;

	for (uint64_t first = 0; first + n <= n_slots; first = ALIGN_UP(first + i + 1, step)) {
		for (i = 0; i < n && !run->slots[first + i];)
			i++;
		if (i == n)
			return run->base + (first << ALIAS_SLOT_SHIFT);
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
		alias->run = alias_run_new(session, alias->span, 0);
		if (!alias->run)
			return false;
		alias->start = alias->run->base;
	}
	return true;
}

static void alias_unpin(struct session *session, const struct alias *alias, uint64_t end)
{
	for (uint64_t at = alias->start; at < end; at += host_cut(at, end - at))
		quiet_unpin(session, (void *)(uintptr_t)at);
}

/* ---- files: a descriptor for all aliases of a file, which another server needs */

struct alias_file *alias_file_new(struct session *session, int fd, const struct fd_facts *facts)
{
	struct alias_file *file = account_alloc(session->account, sizeof(*file), 0);

	if (!file) {
		closep(&fd);
		return NULL;
	}
	*file = (struct alias_file){.fd = fd, .facts = *facts};
	LIST_PUSH(session->aliases->files, file);
	return file;
}

/* Takes `fd'. */
static struct alias_file *file_of(struct session *session, int fd, const struct fd_facts *facts)
{
	struct alias_file *file = session->aliases->files;

	while (file &&
		(file->facts.filesystem != facts->filesystem || file->facts.inode != facts->inode))
		file = file->next;
	if (!file)
		return alias_file_new(session, fd, facts);
	closep(&fd);
	return file;
}

/* Frees the file if it has no alias. */
static void file_put(struct session *session, struct alias_file *file)
{
	if (file->n_aliases > 0)
		return;
	LIST_DROP(session->aliases->files, file);
	closep(&file->fd);
	account_free(file);
}

/* ---- aliases */

static void alias_forget(struct session *session, struct alias *alias)
{
	struct alias_file *file = alias->file;

	file->n_aliases--;
	file_put(session, file);
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
	alias_forget(session, alias);
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
	int fd, uint64_t filesystem, uint64_t inode, uint64_t end, struct fd_facts *ret_facts)
{
	struct fd_facts file;

	if (fd_facts(fd, &file) < 0 || !alias_page_ok(file.page))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (file.filesystem != filesystem || file.inode != inode || file.size == 0 ||
		end > ALIGN_UP(file.size, file.page))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_facts = file;
	return CUDA_SUCCESS;
}

CUresult alias_fill(struct session *session, struct alias *alias)
{
	CUresult result;
	void *map;

	set_slots(alias, alias);
	alias->run->n_aliases++;
	map = mmap((void *)(uintptr_t)alias->start, alias->span, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE | MAP_FIXED, alias->file->fd, (off_t)alias->offset);
	/* A core of the server contains no memory of clients. */
	if (map != MAP_FAILED)
		madvise(map, alias->span, MADV_DONTDUMP);
	result = map == MAP_FAILED ? CUDA_ERROR_NOT_SUPPORTED : alias_pin(session, alias);
	if (result != CUDA_SUCCESS)
		alias_free(session, alias);
	return result;
}

struct alias *alias_new(struct session *session, struct alias_file *file, uint64_t span)
{
	/* It is pinned piece by piece, and may begin within a piece. */
	struct alias *alias = account_alloc(
		session->account, sizeof(*alias), (span / HOST_PIECE + 2) * KEPT_REGISTRATION);

	if (!alias || !account_take(alias, RESOURCE_MAPPINGS, MAPPINGS_OF_ALIAS)) {
		account_free(alias);
		file_put(session, file);
		return NULL;
	}
	alias->span = span;
	alias->file = file;
	file->n_aliases++;
	return alias;
}

static CUresult alias_make(struct session *session, struct alias_file *file, uint64_t offset,
	uint64_t size, uint64_t *ret_address)
{
	const uint64_t page = file->facts.page, in_page = offset % page;
	struct alias *alias = alias_new(session, file, ALIGN_UP(in_page + size, page));
	uint64_t address;
	CUresult result;

	if (!alias)
		return CUDA_ERROR_OUT_OF_MEMORY;
	alias->offset = offset - in_page;
	if (!alias_place(session, alias, page)) {
		alias_forget(session, alias);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	address = alias->address = alias->start + in_page;
	result = alias_fill(session, alias);
	if (result == CUDA_SUCCESS)
		*ret_address = address;
	return result;
}

CUresult do_host_alias(struct session *session, uint32_t device, uint64_t filesystem,
	uint64_t inode, uint64_t offset, uint64_t size, uint64_t *ret_address)
{
	_cleanup_close_ int fd = -EBADF;
	struct session_device *sdev;
	struct alias_file *file;
	struct fd_facts facts;
	CUresult result;

	if (receive_memory(session, offset, size, false, &fd) < 0)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	aliases_poll(session);
	result = check_file(fd, filesystem, inode, offset + size, &facts);
	if (result == CUDA_SUCCESS)
		result = session_device_get_entered(session, device, &sdev);
	if (result == CUDA_SUCCESS) {
		file = file_of(session, TAKE_FD(fd), &facts);
		result = file ? alias_make(session, file, offset, size, ret_address)
			      : CUDA_ERROR_OUT_OF_MEMORY;
	}
	return receive_end(session, result);
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
		alias_forget(session, alias);
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

const struct session_part aliases_part = {
	.stays = aliases_stay,
	.pack = aliases_pack,
	.check = aliases_check,
	.unpack = aliases_unpack,
	.size = sizeof(struct aliases),
	.begin = aliases_begin,
	.is_settled = aliases_are_settled,
	.poll = aliases_poll,
	.end = aliases_fini,
};
