/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A thread that takes locks against their order aborts and says why, in builds with checks.
 */

/* This file has the checks in every build. */
#ifndef LOCK_CHECKS
#define LOCK_CHECKS
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base.h"
#include "lock.h"

static struct lock first, second, third, unknown;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_changed;

static void take_in_order(void)
{
	lock_take(&first);
	lock_take(&second);
	lock_take(&third);
	lock_release(&second);
	lock_release(&first);
	lock_release(&third);
	lock_take(&second);
	lock_release(&second);
}

static void take_against_order(void)
{
	lock_take(&third);
	lock_take(&second);
}

static void take_under_one_of_two(void)
{
	lock_take(&first);
	lock_take(&third);
	lock_release(&first);
	lock_take(&second);
}

static void take_twice(void)
{
	lock_take(&second);
	lock_take(&second);
}

static void take_same_order(void)
{
	struct lock other;

	lock_init(&other, (enum lock_order)2);
	lock_take(&second);
	lock_take(&other);
}

static void try_against_order(void)
{
	lock_take(&second);
	assert_true(lock_try(&first));
	lock_release(&first);
	lock_release(&second);
}

static void take_after_try(void)
{
	assert_true(lock_try(&third));
	lock_take(&second);
}

static void *change(_unused_ void *arg)
{
	lock_take(&first);
	is_changed = true;
	pthread_cond_signal(&changed);
	lock_release(&first);
	return NULL;
}

/* The other thread has no lock, whatever this one holds. */
static void wait_in_order(void)
{
	pthread_t thread;

	lock_take(&first);
	assert_int_equal(pthread_create(&thread, NULL, change, NULL), 0);
	while (!is_changed)
		pthread_cond_wait(&changed, lock_to_wait(&first));
	lock_take(&second);
	lock_release(&second);
	lock_release(&first);
	pthread_join(thread, NULL);
}

static void wait_against_order(void)
{
	lock_take(&first);
	lock_take(&second);
	pthread_cond_wait(&changed, lock_to_wait(&first));
}

static void wait_without(void)
{
	pthread_cond_wait(&changed, lock_to_wait(&first));
}

static void release_without(void)
{
	lock_release(&first);
}

static void take_unknown(void)
{
	lock_take(&unknown);
}

/* `says': what the abort says, in this order; none: the function returns. */
static const struct row {
	const char *name;
	void (*run)(void);
	const char *says[4];
} rows[] = {
	{"in order", take_in_order, {NULL}},
	{"against the order", take_against_order,
		{"test_lock.c:", "takes the lock 2, ", "but holds the lock 3, ", "test_lock.c:"}},
	{"one of two comes after", take_under_one_of_two,
		{"takes the lock 2, ", "but holds the lock 3, "}},
	{"twice", take_twice, {"takes the lock 2, ", "but holds the lock 2, "}},
	{"two of one order", take_same_order, {"takes the lock 2, ", "but holds the lock 2, "}},
	{"a try", try_against_order, {NULL}},
	{"after a try", take_after_try, {"takes the lock 2, ", "but holds the lock 3, "}},
	{"a wait", wait_in_order, {NULL}},
	{"a wait against the order", wait_against_order,
		{"waits and takes again the lock 1, ", "but holds the lock 2, "}},
	{"a wait without the lock", wait_without, {"waits, without holding it, with the lock 1, "}},
	{"a release without the lock", release_without,
		{"releases, without holding it, the lock 1, "}},
	{"not initialised", take_unknown, {"takes the lock 0, without lock_init()"}},
};

/* Runs it in a child. Returns the child's status and what it wrote. */
static int status_of(void (*run)(void), char *text, size_t size)
{
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		run();
		_exit(0);
	}
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = read(fds[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close(fds[0]);
	return status;
}

static void test_order(_unused_ void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		char text[1024], *at = text;
		int status = status_of(row->run, text, sizeof(text));

		if (!row->says[0] && (status != 0 || *text))
			fail_msg("%s: status %d, %s", row->name, status, text);
		if (row->says[0] && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT))
			fail_msg("%s: status %d instead of an abort", row->name, status);
		for (size_t k = 0; k < ARRAY_SIZE(row->says) && row->says[k]; k++) {
			at = strstr(at, row->says[k]);
			if (!at)
				fail_msg("%s: `%s' is not in: %s", row->name, row->says[k], text);
			at += strlen(row->says[k]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
	};

	lock_init(&first, (enum lock_order)1);
	lock_init(&second, (enum lock_order)2);
	lock_init(&third, (enum lock_order)3);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
