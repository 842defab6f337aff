/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Exchanges of pages, and what becomes of them in a forked child.
 *
 * Invariant: between the copy of the bytes and the end of the exchange no other thread
 * of this process runs. Functions whose name begins with stopped_ run in that time:
 * they use system calls, the program's pages, and `struct exchange', which has pages of
 * its own.
 */

#include "exchange.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "disable.h"
#include "lock.h"
#include "shm.h"
#include "client/util/log.h"
#include "client/util/quiet.h"
#include "client/util/stop_threads.h"

#define PIECES_MAX 64u
/* The program may have unmapped parts, or changed their protection. */
#define INTACT_MAX 256u

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* `aside' is where the private mapping is meanwhile. */
struct piece_of_pages {
	uint64_t start, end, aside;
	bool is_locked; /* by mlock() or mlockall(); not while it is aside */
};

struct exchange {
	struct exchange *next;
	uint64_t start, end; /* whole pages */
	uint64_t dontfork;   /* from here on: the first page that is whole */
	uint64_t dontfork_end;
	uint64_t aside;             /* addresses for all of it */
	uint64_t fresh;             /* the file's first mapping; 0: it has moved */
	uint64_t filesystem, inode; /* of the file */
	unsigned n_pieces, n_intact;
	struct piece_of_pages pieces[PIECES_MAX];
	struct piece_of_pages intact[INTACT_MAX]; /* parts that are still mapped */
};

/* Held during an exchange, and by fork(). */
static struct lock exchange_lock = LOCK_INIT(PAGE_EXCHANGES);
static struct exchange *exchanges; /* under the lock */

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/*
 * Copies whole pages. Not memcpy(), which AddressSanitizer checks: the pages contain more
 * than the program's array.
 */
static __attribute__((no_sanitize("address", "thread"))) void copy_pages(
	uint64_t to, uint64_t from, uint64_t size)
{
	const volatile uint64_t *src = pointer(from);
	volatile uint64_t *dst = pointer(to);

	for (uint64_t i = 0; i < size / sizeof(*src); i++)
		dst[i] = src[i];
}

/* What glibc's mremap() and mmap() do; allocators and communication libraries replace those. */
static int move_pages_to(uint64_t from, uint64_t to, uint64_t size)
{
	long at = syscall(SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	return at == (long)to ? 0 : -errno;
}

#define USE_PINNED "; use memory from cuMemHostAlloc"

static const struct {
	int r;
	const char *why;
} reasons[] = {
	{-ECANCELED, "MPS_DISABLE=registered forbids to exchange the pages of registered "
		     "memory" USE_PINNED},
	{-EINVAL, "kernels can access registered memory only if it is private memory that the "
		  "program may read and write, or a shared mapping of a file in memory "
		  "(memfd_create, shm_open) that it can open for writing" USE_PINNED},
	{-EFAULT, "kernels cannot access registered memory on a stack" USE_PINNED},
	{-EEXIST, "the registered memory shares a page with other registered memory that kernels "
		  "can access; align it to pages, or use memory from cuMemHostAlloc"},
	{-E2BIG, "the registered memory consists of too many mappings for an exchange of its "
		 "pages" USE_PINNED},
	{-EADDRINUSE, "io_uring, asynchronous I/O or a device may write to this program's memory, "
		      "so the pages of registered memory cannot be exchanged" USE_PINNED},
	{-EPERM, "the pages of registered memory are exchanged while the program's other threads "
		 "are stopped, and a debugger or a security policy prevents ptrace()" USE_PINNED},
	{-ENOSYS, "the pages of registered memory are exchanged while the program's other threads "
		  "are stopped, for which glibc before 2.25 is too old" USE_PINNED},
	{-EBUSY, "a thread did not stop for the exchange of the pages of registered "
		 "memory" USE_PINNED},
};

const char *exchange_why(int r)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].r == r)
			return reasons[i].why;
	return "there is too little memory to exchange the pages of registered memory";
}

/* ---- what may be exchanged */

/* Memory that the kernel or a device may write to without a thread of this process. */
static bool is_written_by_kernel(const char *path)
{
	return !strcmp(path, "anon_inode:[io_uring]") || !strncmp(path, "/[aio]", 6) ||
	       !strncmp(path, "/dev/vfio/", 10);
}

/* Pages that a device has pinned for long, such as RDMA's and io_uring's. */
static bool has_pinned_pages(void)
{
	_cleanup_fclose_ FILE *status = fopen("/proc/thread-self/status", "re");
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, "VmPin:", 6))
			return line[6 + strspn(line + 6, " \t")] != '0';
	return false;
}

/* Under the lock. */
static bool is_exchanged(const struct area *area)
{
	for (const struct exchange *other = exchanges; other; other = other->next)
		if (other->inode == area->inode && other->filesystem == area->filesystem)
			return true;
	return false;
}

static int add_piece(struct exchange *exchange, const struct area *area, uint64_t *at)
{
	uint64_t end = MIN(area->end, exchange->end);

	if (!strcmp(area->path, "[stack]"))
		return -EFAULT;
	if (area->start > *at)
		return -EINVAL;
	if (!area->is_private)
		return is_exchanged(area) ? -EEXIST : -EINVAL;
	if (exchange->n_pieces == PIECES_MAX)
		return -E2BIG;
	exchange->pieces[exchange->n_pieces++] =
		(struct piece_of_pages){*at, end, exchange->aside + (*at - exchange->start), false};
	*at = end;
	return 0;
}

static int find_pieces(struct exchange *exchange)
{
	_cleanup_fclose_ FILE *maps = fopen("/proc/thread-self/maps", "re");
	_cleanup_free_ char *line = NULL;
	uint64_t at = exchange->start;
	struct area area;
	size_t line_size = 0;
	ssize_t n;
	int r;

	while (maps && (n = getline(&line, &line_size, maps)) > 0) {
		line[n - 1] = 0;
		if (!area_parse(line, &area))
			continue;
		if (is_written_by_kernel(area.path))
			return -EADDRINUSE;
		if (area.end <= at || at >= exchange->end)
			continue;
		r = add_piece(exchange, &area, &at);
		if (r < 0)
			return r;
	}
	return at >= exchange->end ? 0 : -EINVAL;
}

static int add_intact(struct exchange *exchange, const struct area *area)
{
	for (unsigned i = 0; i < exchange->n_pieces; i++) {
		const struct piece_of_pages *piece = &exchange->pieces[i];
		uint64_t start = MAX(area->start, piece->start);
		uint64_t end = MIN(area->end, piece->end);

		if (start >= end)
			continue;
		if (exchange->n_intact == INTACT_MAX)
			return -E2BIG;
		exchange->intact[exchange->n_intact++] = (struct piece_of_pages){
			start, end, piece->aside + (start - piece->start), piece->is_locked};
	}
	return 0;
}

/* Finds the parts of it where the file is still mapped for reading and writing. */
static int find_intact(struct exchange *exchange)
{
	_cleanup_fclose_ FILE *maps = fopen("/proc/thread-self/maps", "re");
	_cleanup_free_ char *line = NULL;
	struct area area;
	size_t line_size = 0;
	ssize_t n;
	int r = 0;

	exchange->n_intact = 0;
	if (!maps)
		return -errno;
	while (r == 0 && (n = getline(&line, &line_size, maps)) > 0) {
		line[n - 1] = 0;
		if (area_parse(line, &area) && area.inode == exchange->inode &&
			area.filesystem == exchange->filesystem)
			r = area.is_usable ? add_intact(exchange, &area) : -EACCES;
	}
	return r;
}

/* ---- there */

/* -ENOTRECOVERABLE: a mapping could not come back. */
static int stopped_undo(const struct exchange *exchange, unsigned n, int r)
{
	while (n-- > 0) {
		const struct piece_of_pages *piece = &exchange->pieces[n];

		if (move_pages_to(piece->aside, piece->start, piece->end - piece->start) < 0)
			return -ENOTRECOVERABLE;
	}
	return r;
}

static int stopped_exchange(void *arg)
{
	struct exchange *exchange = arg;
	uint64_t size = exchange->end - exchange->start;
	int r = 0;

	copy_pages(exchange->fresh, exchange->start, size);
	for (unsigned i = 0; i < exchange->n_pieces; i++) {
		const struct piece_of_pages *piece = &exchange->pieces[i];

		r = move_pages_to(piece->start, piece->aside, piece->end - piece->start);
		if (r < 0)
			return stopped_undo(exchange, i, r);
	}
	r = move_pages_to(exchange->fresh, exchange->start, size);
	if (r < 0)
		return stopped_undo(exchange, exchange->n_pieces, r);
	exchange->fresh = 0;
	return 0;
}

/* Their mappings stay. The kernel refuses to drop locked pages. */
static void drop_aside(struct exchange *exchange)
{
	for (unsigned i = 0; i < exchange->n_pieces; i++) {
		struct piece_of_pages *piece = &exchange->pieces[i];
		uint64_t size = piece->end - piece->start;

		if (syscall(SYS_madvise, piece->aside, size, MADV_DONTNEED) == 0)
			continue;
		piece->is_locked = syscall(SYS_munlock, piece->aside, size) == 0;
		syscall(SYS_madvise, piece->aside, size, MADV_DONTNEED);
	}
}

/* After their return. */
static void lock_again(const struct exchange *exchange)
{
	for (unsigned i = 0; i < exchange->n_intact; i++) {
		const struct piece_of_pages *part = &exchange->intact[i];

		if (part->is_locked)
			syscall(SYS_mlock, part->start, part->end - part->start);
	}
}

static void check_result(int r)
{
	if (r != -ENOTRECOVERABLE)
		return;
	log_error("the kernel did not return registered memory after a failed exchange");
	abort();
}

/* A stopped thread's errno and frames must not be in the range. */
static bool is_on_own_stack(const struct exchange *exchange)
{
	uint64_t frame = (uintptr_t)__builtin_frame_address(0), own_errno = (uintptr_t)&errno;
	uint64_t size = exchange->end - exchange->start;

	return frame - exchange->start < size || own_errno - exchange->start < size;
}

static int exchange_prepare(struct exchange *exchange, struct mapping *ret_mapping)
{
	uint64_t size = exchange->end - exchange->start;
	__shm void *fresh;
	struct quiet quiet;
	void *aside;
	int r;

	if (is_on_own_stack(exchange))
		return -EFAULT;
	if (has_pinned_pages())
		return -EADDRINUSE;
	aside = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (aside == MAP_FAILED)
		return -ENOMEM;
	exchange->aside = (uintptr_t)aside;
	r = find_pieces(exchange);
	if (r < 0)
		return r;
	quiet_begin(&quiet);
	r = shm_create("mps-registered", size, SHM_THEIRS, &ret_mapping->fd, &fresh);
	quiet_end(&quiet);
	if (r < 0)
		return r;
	ret_mapping->is_owned = true;
	exchange->fresh = (uintptr_t)shm_raw(fresh);
	r = mapping_file(ret_mapping);
	exchange->filesystem = ret_mapping->filesystem;
	exchange->inode = ret_mapping->inode;
	return r < 0 ? r : mapping_populate(exchange->fresh, size);
}

static void exchange_free(struct exchange *exchange)
{
	uint64_t size = exchange->end - exchange->start;

	if (exchange->fresh)
		munmap(pointer(exchange->fresh), size);
	if (exchange->aside)
		munmap(pointer(exchange->aside), size);
	munmap(exchange, sizeof(*exchange));
}

static bool is_forbidden(void)
{
	return disable_has(DISABLE_REGISTERED);
}

/* ---- fork(): the child gets copies of the bytes, in the mappings that are aside */

static void fork_prepare(void)
{
	lock_take(&exchange_lock);
	for (struct exchange *exchange = exchanges; exchange; exchange = exchange->next) {
		if (find_intact(exchange) < 0)
			exchange->n_intact = 0;
		for (unsigned i = 0; i < exchange->n_intact; i++) {
			const struct piece_of_pages *part = &exchange->intact[i];

			copy_pages(part->aside, part->start, part->end - part->start);
		}
	}
}

static void fork_parent(void)
{
	for (struct exchange *exchange = exchanges; exchange; exchange = exchange->next)
		drop_aside(exchange);
	lock_release(&exchange_lock);
}

static void fork_child(void)
{
	for (struct exchange *exchange = exchanges; exchange; exchange = exchange->next)
		for (unsigned i = 0; i < exchange->n_intact; i++) {
			const struct piece_of_pages *part = &exchange->intact[i];

			(void)move_pages_to(part->aside, part->start, part->end - part->start);
		}
	exchanges = NULL;
	lock_release(&exchange_lock);
}

/* Under the lock. */
static int fork_handle(void)
{
	static bool is_handled;

	if (!is_handled)
		is_handled = pthread_atfork(fork_prepare, fork_parent, fork_child) == 0;
	return is_handled ? 0 : -ENOMEM;
}

/* Under the lock. */
static int exchange_run(struct exchange *exchange)
{
	int r = fork_handle();

	if (r == 0)
		r = stop_threads_for(stopped_exchange, exchange);
	check_result(r);
	if (r < 0)
		return r;
	drop_aside(exchange);
	/*
	 * Not the pages at the ends that hold other data: the C library may write to that in
	 * the child before the handlers run.
	 */
	if (exchange->dontfork < exchange->dontfork_end)
		madvise(pointer(exchange->dontfork), exchange->dontfork_end - exchange->dontfork,
			MADV_DONTFORK);
	LIST_PUSH(exchanges, exchange);
	return 0;
}

int exchange_new(uint64_t address, uint64_t size, struct exchange **ret_exchange,
	struct mapping *ret_mapping)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct exchange *exchange;
	int r;

	*ret_mapping = (struct mapping){.fd = -EBADF, .offset = address & (page - 1)};
	if (is_forbidden())
		return -ECANCELED;
	exchange = mmap(NULL, sizeof(*exchange), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (exchange == MAP_FAILED)
		return -ENOMEM;
	exchange->start = address & ~(page - 1);
	exchange->end = ALIGN_UP(address + size, page);
	exchange->dontfork = ALIGN_UP(address, page);
	exchange->dontfork_end = (address + size) & ~(page - 1);
	lock_take(&exchange_lock);
	r = exchange_prepare(exchange, ret_mapping);
	if (r == 0)
		r = exchange_run(exchange);
	lock_release(&exchange_lock);
	if (r == 0) {
		*ret_exchange = exchange;
		return 0;
	}
	exchange_free(exchange);
	mapping_close(ret_mapping);
	return r;
}

/* ---- back */

static int stopped_return(void *arg)
{
	const struct exchange *exchange = arg;
	int r = 0;

	for (unsigned i = 0; i < exchange->n_intact && r == 0; i++) {
		const struct piece_of_pages *part = &exchange->intact[i];

		copy_pages(part->aside, part->start, part->end - part->start);
		r = move_pages_to(part->aside, part->start, part->end - part->start);
	}
	return r;
}

/* Outside the time in which the threads are stopped; the pages are the program's again. */
static int populate_aside(const struct exchange *exchange)
{
	for (unsigned i = 0; i < exchange->n_intact; i++) {
		const struct piece_of_pages *part = &exchange->intact[i];

		if (madvise(pointer(part->aside), part->end - part->start, MADV_POPULATE_WRITE) <
				0 &&
			errno != EINVAL)
			return -errno;
	}
	return 0;
}

static void forget(const struct exchange *exchange)
{
	struct exchange **link = &exchanges;

	while (*link && *link != exchange)
		link = &(*link)->next;
	if (*link)
		*link = exchange->next;
}

void exchange_end(struct exchange *exchange)
{
	int r;

	if (!exchange)
		return;
	lock_take(&exchange_lock);
	r = find_intact(exchange);
	if (r == 0)
		r = populate_aside(exchange);
	if (r == 0)
		r = stop_threads_for(stopped_return, exchange);
	if (r == 0) {
		lock_again(exchange);
		forget(exchange);
	}
	lock_release(&exchange_lock);
	if (r == 0)
		exchange_free(exchange);
	else /* It stays in the list: forked children go on getting copies. */
		log_warn("memory at %#llx stays in shared pages after cuMemHostUnregister: %s",
			(unsigned long long)exchange->start, strerror(-r));
}
