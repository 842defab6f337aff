/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Long waits that are repeated: around the end that the last one lets expect, the worker is awake
 * and the thread looks. This test is the GPU and the worker.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/stream/timeline.h"
#include "client/transport/call.h"
#include "client/transport/server_link.h"
#include "client/util/sleep.h"
#include "client/util/worker_pool.h"
#include "clock.h"
#include "send.h"

#define STREAM 70
#define MS 1000000ull

struct server_link server;
struct stream streams[STREAMS_MAX];

static struct page *page;
static unsigned n_processors, n_wakes, n_watches;
static uint64_t wake_reaches; /* the seqno that the worker's wake-up lets come; 0: none */

static void reach(uint64_t seqno)
{
	uint64_t __shm *reached = shm_at((uintptr_t)&page->timeline[STREAM]);

	shm_store64(reached, seqno);
	shm_wake(shm_low_half(reached));
}

CUresult server_link_fault(const struct server_link *link, uint32_t fault)
{
	(void)link;
	return (CUresult)fault;
}

bool server_link_is_alive(void *link)
{
	return server_link_check(link) == CUDA_SUCCESS;
}

CUresult server_link_late_error(struct server_link *link)
{
	(void)link;
	return CUDA_SUCCESS;
}

CUresult send_seqno_write(uint32_t stream, uint64_t value)
{
	(void)stream;
	(void)value;
	return CUDA_SUCCESS;
}

CUresult send_event_record(uint32_t event, uint32_t stream, uint64_t value)
{
	(void)event;
	return send_seqno_write(stream, value);
}

/* The last resort of a wait. */
CUresult send_seqno_watch(uint32_t stream, uint64_t value)
{
	assert_int_equal(stream, STREAM);
	n_watches++;
	reach(value);
	return CUDA_SUCCESS;
}

unsigned worker_pool_processors(void)
{
	return n_processors;
}

void ring_wake(const struct ring_sender *sender)
{
	assert_ptr_equal(sender, &server.sender);
	n_wakes++;
	if (wake_reaches > 0)
		reach(wake_reaches);
}

struct kernel {
	uint64_t seqno, ns;
};

static void *kernel_run(void *user)
{
	const struct kernel *kernel = user;

	sleep_ns(kernel->ns);
	reach(kernel->seqno);
	return NULL;
}

/* A wait for a kernel of this length. */
static void wait_for_kernel(uint64_t seqno, uint64_t ns)
{
	struct kernel kernel = {seqno, ns};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, kernel_run, &kernel), 0);
	assert_int_equal(timeline_wait(&streams[STREAM], seqno), CUDA_SUCCESS);
	assert_true(timeline_reached(&streams[STREAM], seqno));
	pthread_join(thread, NULL);
}

static int setup(void **state)
{
	(void)state;
	page = calloc(1, sizeof(*page));
	server.page = shm_at((uintptr_t)page);
	pthread_mutex_init(&streams[STREAM].lock, NULL);
	return page ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(page);
	return 0;
}

/* Each test has a thread of its own, because a thread expects what it has seen. */
static void in_thread(void *(*run)(void *user))
{
	pthread_t thread;

	reach(0);
	n_processors = 16;
	n_wakes = n_watches = 0;
	wake_reaches = 0;
	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	pthread_join(thread, NULL);
}

/* The worker ends the second wait, which has no kernel. */
static void *repeated_run(void *user)
{
	(void)user;
	wait_for_kernel(1, 12 * MS);
	assert_int_equal(n_wakes, 0);
	n_watches = 0;
	wake_reaches = 2;
	assert_int_equal(timeline_wait(&streams[STREAM], 2), CUDA_SUCCESS);
	assert_int_equal(n_wakes, 1);
	assert_int_equal(n_watches, 0);
	return NULL;
}

static void test_repeated(void **state)
{
	(void)state;
	in_thread(repeated_run);
}

/* Other clients need the processors. */
static void *few_processors_run(void *user)
{
	(void)user;
	n_processors = 2;
	wait_for_kernel(1, 12 * MS);
	wait_for_kernel(2, 12 * MS);
	assert_int_equal(n_wakes, 0);
	return NULL;
}

static void test_few_processors(void **state)
{
	(void)state;
	in_thread(few_processors_run);
}

/* The wait after a shorter one than expected, and after a longer one. */
static void *changing_run(void *user)
{
	(void)user;
	wait_for_kernel(1, 20 * MS);
	wait_for_kernel(2, 5 * MS);
	wait_for_kernel(3, 15 * MS);
	n_wakes = n_watches = 0;
	wake_reaches = 4;
	assert_int_equal(timeline_wait(&streams[STREAM], 4), CUDA_SUCCESS);
	assert_int_equal(n_wakes, 1);
	assert_int_equal(n_watches, 0);
	return NULL;
}

static void test_changing(void **state)
{
	(void)state;
	in_thread(changing_run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_few_processors),
		cmocka_unit_test(test_changing),
	};

	return cmocka_run_group_tests_name("client_timeline", tests, setup, teardown);
}
