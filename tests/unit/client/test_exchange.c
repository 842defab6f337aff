/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Exchanges of pages: the bytes stay, no write of a thread or of a system call is lost,
 * a failed system call changes nothing, and what cannot be exchanged is refused.
 */

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "client/util/log.h"
#include "client/memory/exchange.h"

#define PAGE ((size_t)4096)
#define N_PAGES 16u
#define SIZE (N_PAGES * PAGE)
#define ROUNDS 1000

static atomic_int fail_at; /* the number of the mremap() that fails; 0: none */
static atomic_bool is_done;

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (number == SYS_mremap && fail_at > 0 && --fail_at == 0) {
		errno = ENOMEM;
		return -1;
	}
	return __real_syscall(number, a, b, c, d, e, f);
}

void log_line(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

static uint8_t *pages_new(void)
{
	uint8_t *pages =
		mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	for (size_t i = 0; i < SIZE; i++)
		pages[i] = (uint8_t)(i * 7 + i / PAGE);
	return pages;
}

static void check_bytes(const uint8_t *pages)
{
	for (size_t i = 0; i < SIZE; i++)
		assert_int_equal(pages[i], (uint8_t)(i * 7 + i / PAGE));
}

static int try_exchange(const void *at, size_t size, struct exchange **ret_exchange)
{
	struct mapping mapping;
	int r = exchange_new((uintptr_t)at, size, ret_exchange, &mapping);

	mapping_close(&mapping);
	return r;
}

/* Another mapping of the file, as the server has one. */
static uint8_t *map_file(const struct mapping *mapping)
{
	void *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, mapping->fd, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	return map;
}

/* Two mappings with different properties, and bytes before and behind the range. */
static void test_bytes(void **state)
{
	uint8_t *pages = pages_new(), *other;
	struct exchange *exchange;
	struct mapping mapping;

	(void)state;
	assert_int_equal(madvise(pages + 3 * PAGE, PAGE, MADV_DONTDUMP), 0);
	assert_int_equal(exchange_new((uintptr_t)pages + 5, SIZE - 10, &exchange, &mapping), 0);
	assert_int_equal(mapping.offset, 5);
	other = map_file(&mapping);
	mapping_close(&mapping);
	check_bytes(pages);
	check_bytes(other);
	other[PAGE] = 77;
	pages[2 * PAGE] = 78;
	assert_int_equal(pages[PAGE], 77);
	assert_int_equal(other[2 * PAGE], 78);
	exchange_end(exchange);
	assert_int_equal(pages[PAGE], 77);
	assert_int_equal(pages[2 * PAGE], 78);
	other[PAGE] = 79;
	assert_int_equal(pages[PAGE], 77);
	/* Private pages again: they read as zeros when the program gives them up. */
	assert_int_equal(madvise(pages, SIZE, MADV_DONTNEED), 0);
	assert_int_equal(pages[PAGE], 0);
	munmap(other, SIZE);
	munmap(pages, SIZE);
}

/* Of the mapping that contains `address', in KiB. */
static unsigned locked_at(const void *address)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	uint64_t start, end, at = (uintptr_t)address;
	unsigned locked = 0;
	bool is_it = false;
	char line[256];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_it = start <= at && at < end;
		if (is_it)
			(void)sscanf(line, "Locked: %u kB", &locked);
	}
	fclose(maps);
	return locked;
}

static unsigned locked_in_all(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	unsigned locked = 0;
	char line[256];

	assert_non_null(status);
	while (fgets(line, sizeof(line), status))
		(void)sscanf(line, "VmLck: %u kB", &locked);
	fclose(status);
	return locked;
}

/* Locked pages are not locked twice, and are locked again afterwards. */
static void test_locked(void **state)
{
	uint8_t *pages = pages_new();
	unsigned before = locked_in_all();
	struct exchange *exchange;

	(void)state;
	/* Sanitizers make mlock() do nothing. */
	assert_int_equal(syscall(SYS_mlock, (long)(uintptr_t)(pages + 4 * PAGE), 8 * PAGE), 0);
	assert_int_equal(locked_in_all(), before + 32);
	assert_int_equal(try_exchange(pages, SIZE, &exchange), 0);
	assert_int_equal(locked_in_all(), before);
	check_bytes(pages);
	exchange_end(exchange);
	check_bytes(pages);
	assert_int_equal(locked_in_all(), before + 32);
	assert_int_equal(locked_at(pages), 0);
	assert_int_equal(locked_at(pages + 4 * PAGE), 32);
	assert_int_equal(locked_at(pages + 12 * PAGE), 0);
	munmap(pages, SIZE);
}

static void *count_up(void *word)
{
	uint64_t n = 0;

	for (; !is_done; n++) {
		volatile uint64_t *at = word;

		*at = *at + 1;
	}
	return (void *)(uintptr_t)n;
}

/* A system call writes the word. */
static void *read_up(void *word)
{
	uint64_t n = 0;
	int fds[2];

	if (pipe(fds) < 0)
		return (void *)-1;
	for (; !is_done; n++) {
		uint64_t next = n + 1;

		if (*(volatile uint64_t *)word != n || write(fds[1], &next, sizeof(next)) != 8 ||
			read(fds[0], word, sizeof(next)) != 8)
			break;
	}
	close(fds[0]);
	close(fds[1]);
	return (void *)(uintptr_t)n;
}

/* A read waits in a system call for the whole test; it must not fail. */
static void *blocked(void *fd)
{
	char byte;

	return (void *)(intptr_t)read(*(int *)fd, &byte, 1);
}

/* On a busy machine a thread may not have run yet. */
static void await_count(const volatile uint64_t *word)
{
	while (*word == 0)
		usleep(100);
}

static void test_no_lost_write(void **state)
{
	uint64_t *words = (uint64_t *)(void *)pages_new();
	pthread_t threads[4];
	struct exchange *exchange;
	void *n[4];
	int fds[2];

	(void)state;
	memset(words, 0, SIZE);
	assert_int_equal(pipe(fds), 0);
	is_done = false;
	pthread_create(&threads[0], NULL, count_up, words + 1);
	pthread_create(&threads[1], NULL, read_up, words + PAGE / 8);
	pthread_create(&threads[2], NULL, count_up, words + SIZE / 8 - 1);
	pthread_create(&threads[3], NULL, blocked, &fds[0]);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(try_exchange(words, SIZE, &exchange), 0);
		exchange_end(exchange);
	}
	await_count(&words[1]);
	await_count(&words[PAGE / 8]);
	is_done = true;
	assert_int_equal(write(fds[1], "", 1), 1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], &n[i]);
	assert_int_equal(words[1], (uintptr_t)n[0]);
	assert_int_equal(words[PAGE / 8], (uintptr_t)n[1]);
	assert_int_equal(words[SIZE / 8 - 1], (uintptr_t)n[2]);
	assert_int_equal((intptr_t)n[3], 1);
	close(fds[0]);
	close(fds[1]);
	munmap(words, SIZE);
}

/* A call that fails leaves the memory as it was. */
static void test_failures(void **state)
{
	uint8_t *pages = pages_new();
	struct exchange *exchange;

	(void)state;
	assert_int_equal(madvise(pages + 3 * PAGE, PAGE, MADV_DONTDUMP), 0);
	for (int i = 1; i <= 4; i++) {
		fail_at = i;
		assert_int_equal(try_exchange(pages, SIZE, &exchange), -ENOMEM);
		assert_int_equal(fail_at, 0);
		check_bytes(pages);
		assert_int_equal(madvise(pages + SIZE - PAGE, PAGE, MADV_DONTNEED), 0);
		assert_int_equal(pages[SIZE - 1], 0);
		for (size_t k = SIZE - PAGE; k < SIZE; k++)
			pages[k] = (uint8_t)(k * 7 + k / PAGE);
	}
	assert_int_equal(try_exchange(pages, SIZE, &exchange), 0);
	fail_at = 1;
	exchange_end(exchange);
	fail_at = 0;
	check_bytes(pages);
	munmap(pages, SIZE);
}

/* The child has the bytes of the moment, and neither sees what the other writes. */
static void test_fork(void **state)
{
	uint8_t *pages = pages_new();
	struct exchange *exchange;
	int status = -1;
	pid_t child;

	(void)state;
	assert_int_equal(try_exchange(pages + 5, SIZE - 10, &exchange), 0);
	child = fork();
	if (child == 0) {
		for (size_t i = 0; i < SIZE; i++)
			if (pages[i] != (uint8_t)(i * 7 + i / PAGE))
				_exit(1);
		memset(pages, 0xff, SIZE);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	check_bytes(pages);
	exchange_end(exchange);
	check_bytes(pages);
	munmap(pages, SIZE);
}

/* Pages that a child has, too, are only copied: the child keeps its own. */
static void test_shared_with_child(void **state)
{
	uint8_t *pages = pages_new();
	struct exchange *exchange;
	int status = -1, go[2];
	pid_t child;
	char byte;

	(void)state;
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 0)
			_exit(1);
		for (size_t i = 0; i < SIZE; i++)
			if (pages[i] != (uint8_t)(i * 7 + i / PAGE))
				_exit(2);
		_exit(0);
	}
	assert_int_equal(try_exchange(pages, SIZE, &exchange), 0);
	memset(pages, 1, SIZE);
	close(go[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	exchange_end(exchange);
	close(go[0]);
	munmap(pages, SIZE);
}

/* What the program has unmapped, or mapped anew, meanwhile. */
static void test_unmapped(void **state)
{
	uint8_t *pages = pages_new(), *fresh;
	struct exchange *exchange;

	(void)state;
	assert_int_equal(try_exchange(pages, SIZE, &exchange), 0);
	munmap(pages + PAGE, PAGE);
	fresh = mmap(pages + PAGE, PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	*fresh = 9;
	exchange_end(exchange);
	assert_int_equal(*fresh, 9);
	assert_int_equal(pages[1], 7);
	assert_int_equal(pages[SIZE - 1], (uint8_t)((SIZE - 1) * 7 + N_PAGES - 1));
	munmap(pages, SIZE);
}

static void test_refused(void **state)
{
	uint8_t *pages = pages_new(), frame[64];
	struct exchange *exchange, *first;
	void *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_int_equal(try_exchange(frame, sizeof(frame), &exchange), -EFAULT);
	assert_int_equal(try_exchange(shared, 1, &exchange), -EINVAL);
	assert_int_equal(mprotect(pages, PAGE, PROT_READ), 0);
	assert_int_equal(try_exchange(pages, SIZE, &exchange), -EINVAL);
	assert_int_equal(mprotect(pages, PAGE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(try_exchange(pages, PAGE + 1, &first), 0);
	assert_int_equal(try_exchange(pages + PAGE + 8, 8, &exchange), -EEXIST);
	exchange_end(first);
	setenv("MPS_DISABLE", "registered", 1);
	assert_int_equal(try_exchange(pages, SIZE, &exchange), -ECANCELED);
	unsetenv("MPS_DISABLE");
	check_bytes(pages);
	munmap(shared, PAGE);
	munmap(pages, SIZE);
}

/* A queue of asynchronous I/O may write to any memory. */
static void test_asynchronous_io(void **state)
{
	uint8_t *pages = pages_new();
	struct exchange *exchange;
	unsigned long queue = 0;

	(void)state;
	if (syscall(SYS_io_setup, 8L, (long)&queue, 0L, 0L, 0L, 0L) < 0)
		skip();
	assert_int_equal(try_exchange(pages, SIZE, &exchange), -EADDRINUSE);
	syscall(SYS_io_destroy, (long)queue, 0L, 0L, 0L, 0L, 0L);
	assert_int_equal(try_exchange(pages, SIZE, &exchange), 0);
	exchange_end(exchange);
	munmap(pages, SIZE);
}

static void *sleeper(void *unused)
{
	(void)unused;
	while (!is_done)
		usleep(1000);
	return NULL;
}

static void *exchange_alone(void *pages)
{
	struct exchange *exchange;

	/* Until the main thread has ended; the kernel goes on listing it. */
	usleep(20000);
	_exit(try_exchange(pages, SIZE, &exchange) == 0 ? 0 : 1);
}

static void test_main_thread_ended(void **state)
{
	uint8_t *pages = pages_new();
	pthread_t thread;
	int status = -1;
	pid_t child;

	(void)state;
	child = fork();
	if (child == 0) {
		if (pthread_create(&thread, NULL, exchange_alone, pages) != 0)
			_exit(2);
		syscall(SYS_exit, 0L, 0L, 0L, 0L, 0L, 0L);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	munmap(pages, SIZE);
}

/* In a child whose second thread is traced by this process, as by a debugger. */
static int refused_in_child(const uint8_t *pages, int to, int from)
{
	struct exchange *exchange;
	pthread_t thread;
	char byte;
	int r;

	is_done = false;
	if (pthread_create(&thread, NULL, sleeper, NULL) != 0 || write(to, "", 1) != 1 ||
		read(from, &byte, 1) != 1)
		return 1;
	r = try_exchange(pages, SIZE, &exchange);
	for (size_t i = 0; i < SIZE; i++)
		if (pages[i] != (uint8_t)(i * 7 + i / PAGE))
			return 2;
	return r == -EPERM ? 0 : 3;
}

static pid_t second_thread(pid_t process)
{
	char path[64];

	for (pid_t id = process + 1; id < process + 10000; id++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d", process, id);
		if (access(path, F_OK) == 0)
			return id;
	}
	return -1;
}

static void test_debugger(void **state)
{
	uint8_t *pages = pages_new();
	int up[2], down[2], status = -1;
	pid_t child, ended;
	char byte;

	(void)state;
	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(down), 0);
	child = fork();
	if (child == 0)
		_exit(refused_in_child(pages, up[1], down[0]));
	assert_int_equal(read(up[0], &byte, 1), 1);
	assert_int_equal(ptrace(PTRACE_SEIZE, second_thread(child), 0, 0), 0);
	assert_int_equal(write(down[1], "", 1), 1);
	/* The end of the traced thread comes before that of its process. */
	do
		ended = waitpid(-1, &status, __WALL);
	while (ended > 0 && ended != child);
	assert_int_equal(status, 0);
	munmap(pages, SIZE);
}

/*
 * The tracer shares the memory and the thread-local state of the thread that waits for it, and
 * stops threads that may hold a lock of ThreadSanitizer.
 */
#ifdef __SANITIZE_THREAD__
#define IS_TSAN true
#else
#define IS_TSAN false
#endif

static void test_skipped(void **state)
{
	(void)state;
	skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_locked),
		cmocka_unit_test(test_no_lost_write),
		cmocka_unit_test(test_main_thread_ended),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_shared_with_child),
		cmocka_unit_test(test_unmapped),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_asynchronous_io),
		cmocka_unit_test(test_debugger),
	};
	const struct CMUnitTest skipped[] = {cmocka_unit_test(test_skipped)};

	return IS_TSAN ? cmocka_run_group_tests(skipped, NULL, NULL)
		       : cmocka_run_group_tests(tests, NULL, NULL);
}
