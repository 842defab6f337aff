/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The name of the last launch, while kernels come and go.
 */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "server/session/last_launch.h"

#define LAUNCHES 20000u

static struct last_launch last;

static int set_up(_unused_ void **state)
{
	memset(&last, 0, sizeof(last));
	last_launch_init(&last);
	return 0;
}

static int tear_down(_unused_ void **state)
{
	last_launch_fini(&last);
	return 0;
}

/* A kernel's name. */
static char *name_new(char letter)
{
	char *name = calloc(1, KERNEL_NAME_MAX);

	assert_non_null(name);
	memset(name, letter, KERNEL_NAME_MAX - 1);
	return name;
}

static void check(const char *want)
{
	char text[KERNEL_NAME_MAX];

	last_launch_copy(&last, text);
	assert_string_equal(text, want);
}

static void unload(char *name)
{
	last_launch_keep(&last, name);
	memset(name, '!', KERNEL_NAME_MAX - 1);
	free(name);
}

static void test_order(_unused_ void **state)
{
	char *a = name_new('a'), *b = name_new('b');
	char text[KERNEL_NAME_MAX];

	check("");
	last_launch_note(&last, a);
	check(a);
	last_launch_note(&last, b);
	check(b);
	/* Another kernel goes, then the last one. */
	unload(a);
	check(b);
	memcpy(text, b, sizeof(text));
	unload(b);
	check(text);
	last_launch_note(&last, LAST_LAUNCH_GRAPH);
	check("(graph)");
	a = name_new('c');
	unload(a);
	check("(graph)");
}

/* Launches two kernels and unloads them, the last one first or not. */
static void *work(void *is_done)
{
	for (unsigned i = 0; i < LAUNCHES; i++) {
		char *a = name_new('a'), *b = name_new('b');

		last_launch_note(&last, a);
		last_launch_note(&last, b);
		unload(i % 2 ? a : b);
		unload(i % 2 ? b : a);
	}
	atomic_store((atomic_bool *)is_done, true);
	return NULL;
}

/* The loop copies only whole names of kernels that exist. */
static void test_race(_unused_ void **state)
{
	atomic_bool is_done = false;
	pthread_t worker;

	assert_int_equal(pthread_create(&worker, NULL, work, &is_done), 0);
	while (!atomic_load(&is_done)) {
		char text[KERNEL_NAME_MAX];
		size_t length;

		last_launch_copy(&last, text);
		length = strlen(text);
		assert_true(length == 0 || length == KERNEL_NAME_MAX - 1);
		assert_true(strspn(text, "a") == length || strspn(text, "b") == length);
	}
	pthread_join(worker, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_race, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
