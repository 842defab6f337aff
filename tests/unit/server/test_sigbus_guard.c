/* SPDX-License-Identifier: Apache-2.0 */

/* Reads of a file that a client has cut short: zeros in the host space, a signal elsewhere. */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "layout.h"
#include "server/util/sigbus_guard.h"
#include "server/util/thread.h"

#define PAGE 4096ul
#define BYTES (4 * PAGE)

static int file_new(void)
{
	int fd = memfd_create("shield", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)BYTES), 0);
	return fd;
}

static volatile uint8_t *map(int fd, uint64_t address)
{
	void *p = mmap((void *)(uintptr_t)address, BYTES, PROT_READ | PROT_WRITE,
		MAP_SHARED | (address ? MAP_FIXED_NOREPLACE : 0), fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void test_cut(void **state)
{
	int fd = file_new();
	volatile uint8_t *p = map(fd, HOST_SPACE + VA_WINDOW);

	(void)state;
	sigbus_guard_init(); /* cmocka sets its own handler around each test */
	for (size_t i = 0; i < BYTES; i++)
		p[i] = 7;
	assert_int_equal(ftruncate(fd, (off_t)(2 * PAGE)), 0);
	assert_int_equal(p[3 * PAGE + 5], 0);
	p[3 * PAGE + 5] = 1;
	assert_int_equal(p[3 * PAGE + 5], 1);
	assert_int_equal(p[2 * PAGE], 0);
	assert_int_equal(p[2 * PAGE - 1], 7);
	/* Guarded pages stay so, whatever happens to the file. */
	assert_int_equal(ftruncate(fd, (off_t)BYTES), 0);
	assert_int_equal(p[3 * PAGE + 5], 1);
	munmap((void *)p, BYTES);
	close(fd);
}

static void *look(void *p)
{
	return (void *)(uintptr_t) * (volatile uint8_t *)p;
}

/* Workers block signals, but not this one. */
static void test_in_a_worker(void **state)
{
	int fd = file_new();
	volatile uint8_t *p = map(fd, HOST_SPACE + VA_WINDOW);
	pthread_t thread;
	void *seen;

	(void)state;
	sigbus_guard_init();
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(thread_start(&thread, "look", look, (void *)p), 0);
	assert_int_equal(pthread_join(thread, &seen), 0);
	assert_null(seen);
	munmap((void *)p, BYTES);
	close(fd);
}

static void test_elsewhere(void **state)
{
	int fd = file_new(), status = 0;
	volatile uint8_t *p = map(fd, 0);
	pid_t child;

	(void)state;
	sigbus_guard_init();
	assert_int_equal(ftruncate(fd, 0), 0);
	child = fork();
	if (child == 0) {
		p[0] = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	munmap((void *)p, BYTES);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_in_a_worker),
		cmocka_unit_test(test_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
