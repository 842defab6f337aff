/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The library's log as programs read it: the driver's format, small buffers, old
 * messages that are missing, and callbacks.
 */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "calls_util.h"
#include "client/util/logs.h"

#define NO_ROOM                                                                                    \
	"The provided buffer is not large enough to hold all messages. "                           \
	"Some messages will be missing\n"

static CUlogIterator at;

static int begin(void **state)
{
	(void)state;
	return local_cuLogsCurrent(&at, 1) == CUDA_SUCCESS ? 0 : -1;
}

static unsigned n_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void test_format(void **state)
{
	unsigned hour, minute, second, ms;
	unsigned long thread;
	char text[256], said[64];
	size_t size = sizeof(text);

	(void)state;
	logs_add(LOG_ERROR, "something is wrong");
	assert_int_equal(local_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
	assert_int_equal(size, strlen(text));
	assert_int_equal(sscanf(text, "[%2u:%2u:%2u.%3u][%lu][CUDA][E] %63[^\n]", &hour, &minute,
				 &second, &ms, &thread, said),
		6);
	assert_true(hour < 24 && minute < 60 && second < 60);
	assert_true(thread == pthread_self());
	assert_string_equal(said, "something is wrong");
	size = sizeof(text);
	text[0] = 'x';
	assert_int_equal(local_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
	assert_int_equal(size, 0);
	assert_int_equal(text[0], 'x');
}

static void test_small_buffers(void **state)
{
	char text[512];
	size_t size = sizeof(text);

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(text, sizeof(text), "message %u of a few words", i);
		logs_add(LOG_WARN, text);
	}
	memset(text, 'x', sizeof(text));
	assert_int_equal(local_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
	assert_true(size == strlen(text) && size < sizeof(text));
	assert_memory_equal(text, NO_ROOM, strlen(NO_ROOM));
	assert_true(n_lines(text) > 3);
	/* Only whole lines; the newest comes last. */
	assert_non_null(strstr(text, "[CUDA][W] message 19 of a few words\n"));
	assert_null(strstr(text, "message 0 "));
	logs_add(LOG_ERROR, "one more");
	size = 8;
	assert_int_equal(local_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(size, 0);
	/* The message is still there. */
	size = sizeof(text);
	assert_int_equal(local_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
	assert_int_equal(n_lines(text), 1);
}

static void test_gone(void **state)
{
	static char text[65536];
	size_t size = sizeof(text);

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		logs_add(LOG_ERROR, "these are many, and not all of them are kept for long");
	assert_int_equal(local_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
	assert_true(size <= 25600 + 128);
	assert_true(text[0] == '[' && strstr(text, " earlier messages are missing]\n"));
}

static unsigned n_heard;

static void CUDA_CB on_log(void *data, CUlogLevel level, char *message, size_t length)
{
	assert_ptr_equal(data, &n_heard);
	assert_int_equal(level, CU_LOG_LEVEL_ERROR);
	assert_string_equal(message, "heard");
	assert_int_equal(length, strlen(message));
	n_heard++;
	logs_add(LOG_ERROR, "not heard");
}

static void test_callbacks(void **state)
{
	CUlogsCallbackHandle handle;
	char text[256];
	size_t size = sizeof(text);

	(void)state;
	assert_int_equal(local_cuLogsRegisterCallback(on_log, &n_heard, &handle), CUDA_SUCCESS);
	logs_add(LOG_ERROR, "heard");
	logs_add(LOG_ERROR, "heard");
	assert_int_equal(n_heard, 2);
	assert_int_equal(local_cuLogsUnregisterCallback(handle), CUDA_SUCCESS);
	logs_add(LOG_ERROR, "too late");
	assert_int_equal(n_heard, 2);
	assert_int_equal(local_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
	assert_int_equal(n_lines(text), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_format, begin),
		cmocka_unit_test_setup(test_small_buffers, begin),
		cmocka_unit_test_setup(test_gone, begin),
		cmocka_unit_test_setup(test_callbacks, begin),
	};

	return cmocka_run_group_tests_name("client_logs", tests, NULL, NULL);
}
