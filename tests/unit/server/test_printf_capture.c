/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns of sessions whose kernels can print, and who gets the text. The sessions have no worker
 * and no stream, so their work has ended at once.
 */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/stream/printf_capture.h"

#define SESSIONS 3

static struct session *sessions[SESSIONS];
static void *parts[SESSIONS]; /* the memory of the parts of each session */
static struct print_history kernels[SESSIONS];
static int printer; /* the driver's standard output */

static struct session *make_session(void *memory)
{
	struct session *session = calloc(1, sizeof(*session));

	session->page = shm_at((uintptr_t)calloc(1, sizeof(struct page)));
	session_parts_begin(session, memory);
	session->account = account_new(0, (struct account_owner){0}, NULL);
	return session;
}

static int open_sessions(void **state)
{
	(void)state;
	for (int i = 0; i < SESSIONS; i++) {
		parts[i] = calloc(1, session_parts_size());
		sessions[i] = make_session(parts[i]);
		kernels[i] = (struct print_history){0};
	}
	return 0;
}

static int close_sessions(void **state)
{
	(void)state;
	for (int i = 0; i < SESSIONS; i++) {
		printf_capture_part.end(sessions[i], false);
		account_close(sessions[i]->account);
		free(parts[i]);
		free(shm_raw(sessions[i]->page));
		free(sessions[i]);
	}
	return 0;
}

static bool begin(int i)
{
	return printf_capture_begin(sessions[i], &kernels[i]);
}

static void end(int i)
{
	printf_capture_flush(sessions[i]);
}

/* Turns without text. */
static void be_silent(int i, int n)
{
	while (n-- > 0) {
		assert_true(begin(i));
		end(i);
	}
}

/* The next turns of the sessions 0 and 1 are shared, and have begun. */
static void share_turns(void)
{
	be_silent(0, SILENT_TURNS);
	be_silent(1, SILENT_TURNS);
	/* The turn that ended last counts at the next launch. */
	assert_true(begin(0));
	assert_true(begin(1));
}

static void print(const char *text)
{
	assert_int_equal(write(printer, text, strlen(text)), strlen(text));
}

static bool has_text(int i, const char *text)
{
	size_t n = strlen(text);

	return sessions[i]->text->n_bytes == n &&
	       (n == 0 || memcmp(sessions[i]->text->bytes, text, n) == 0);
}

static void test_alone(void **state)
{
	(void)state;
	assert_true(begin(0));
	assert_true(begin(0));
	assert_false(begin(1));
	print("of 0");
	end(0);
	assert_true(has_text(0, "of 0"));
	assert_true(begin(1));
	end(1);
	assert_true(has_text(1, ""));
}

static void test_silent_ones_share(void **state)
{
	(void)state;
	share_turns();
	assert_false(begin(2));
	end(1);
	/* While no other session has a turn, the text of a silent kernel is its own. */
	print("of 0");
	end(0);
	assert_true(has_text(0, "of 0"));
	assert_true(begin(2));
	assert_false(begin(0));
	assert_false(begin(1));
	end(2);
}

static void test_text_of_several(void **state)
{
	(void)state;
	share_turns();
	print("of 0 or 1");
	end(0);
	end(1);
	assert_true(has_text(0, ""));
	assert_true(has_text(1, ""));
	/* Neither is silent any more. */
	assert_true(begin(0));
	assert_false(begin(1));
	end(0);
	be_silent(1, SILENT_TURNS - 1);
	be_silent(0, SILENT_TURNS - 2);
	assert_true(begin(1));
	assert_false(begin(0));
	end(1);
}

/* A session with a shared turn launches a kernel that was never silent. */
static void test_another_kernel(void **state)
{
	struct print_history other = {0};

	(void)state;
	share_turns();
	assert_false(printf_capture_begin(sessions[0], &other));
	end(1);
	assert_true(printf_capture_begin(sessions[0], &other));
	assert_false(begin(1));
	end(0);
	assert_true(begin(1));
	end(1);
}

/* A session's worker that needs a turn alone for a kernel that was never silent. */
struct waiting_worker {
	struct session *session;
	struct print_history kernel;
	const char *text; /* what the kernel prints */
	pthread_t thread;
};

static void *worker_run(void *arg)
{
	struct waiting_worker *worker = arg;
	const char *text = worker->text;

	if (!printf_capture_begin(worker->session, &worker->kernel))
		printf_capture_wait(worker->session, &worker->kernel);
	if (write(printer, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	printf_capture_flush(worker->session);
	return NULL;
}

static void start(struct waiting_worker *worker)
{
	assert_int_equal(pthread_create(&worker->thread, NULL, worker_run, worker), 0);
}

static void join(struct waiting_worker *worker)
{
	assert_int_equal(pthread_join(worker->thread, NULL), 0);
}

/* The waiting session is before those that could share the turn of session 0. */
static void test_wait(void **state)
{
	struct waiting_worker worker = {.session = sessions[2], .text = "of 2"};

	(void)state;
	share_turns();
	end(1);
	start(&worker);
	/* The test's time limit ends an endless loop here. */
	while (begin(1))
		end(1);
	assert_true(has_text(2, ""));
	end(0);
	join(&worker);
	assert_true(has_text(0, ""));
	assert_true(has_text(2, "of 2"));
	assert_true(begin(1));
	end(1);
}

/* Both have a shared turn, and each wants one alone: each gives up its own first. */
static void test_two_wait(void **state)
{
	struct waiting_worker workers[2] = {
		{.session = sessions[0], .text = "of 0"},
		{.session = sessions[1], .text = "of 1"},
	};

	(void)state;
	share_turns();
	for (int i = 0; i < 2; i++)
		start(&workers[i]);
	for (int i = 0; i < 2; i++)
		join(&workers[i]);
	assert_true(has_text(0, "of 0"));
	assert_true(has_text(1, "of 1"));
}

/* Standard output stays the test's own. */
static bool init(void)
{
	int before = dup(STDOUT_FILENO);

	if (before < 0 || printf_capture_init() < 0)
		return false;
	printer = dup(STDOUT_FILENO);
	dup2(before, STDOUT_FILENO);
	close(before);
	return true;
}

static void test_switched_off(void **state)
{
	(void)state;
	setenv("MPS_DISABLE", "turns", 1);
	close(printer);
	assert_true(init());
	be_silent(0, 2 * SILENT_TURNS);
	be_silent(1, 2 * SILENT_TURNS);
	assert_true(begin(0));
	assert_false(begin(1));
	end(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_alone, open_sessions, close_sessions),
		cmocka_unit_test_setup_teardown(
			test_silent_ones_share, open_sessions, close_sessions),
		cmocka_unit_test_setup_teardown(
			test_text_of_several, open_sessions, close_sessions),
		cmocka_unit_test_setup_teardown(test_another_kernel, open_sessions, close_sessions),
		cmocka_unit_test_setup_teardown(test_wait, open_sessions, close_sessions),
		cmocka_unit_test_setup_teardown(test_two_wait, open_sessions, close_sessions),
		/* The last one, as it changes the setting. */
		cmocka_unit_test_setup_teardown(test_switched_off, open_sessions, close_sessions),
	};

	if (!init())
		return 1;
	return cmocka_run_group_tests_name("server printf capture", tests, NULL, NULL);
}
