/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that leaves a GPU and comes back, over the counting driver: what leaves, what stays, and
 * who is asked.
 */

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "clock.h"
#include "open_session.h"
#include "server/session/fault.h"
#include "server/schedule/closed_gpu.h"
#include "server/share/borrowers.h"
#include "server/share/eviction.h"
#include "server/share/session_devices.h"
#include "server/memory/away.h"
#include "server/memory/space.h"

#define MIB ((uint64_t)1 << 20)
#define STORE_MIB "512"

static int start(void **state)
{
	(void)state;
	setenv("MPS_OVERSUBSCRIBE_HOST", STORE_MIB, 1);
	fake_cuda_start();
	eviction_init();
	return 0;
}

/* ---- one session */

static int open_big_session(void **state)
{
	int r = open_session(state);

	harness.session->limits.oversubscribe = OVERSUBSCRIBE_YES;
	return r;
}

static uint64_t alloc(uint64_t size)
{
	uint64_t address = 0;

	assert_int_equal(send_memory_alloc(0, size, &address), CUDA_SUCCESS);
	return address;
}

static uint64_t away(void)
{
	return eviction_bytes(harness.session);
}

static void test_leaves_and_returns(void **state)
{
	int before = fake_counts.allocations;
	uint64_t large = alloc(40 * MIB), small = alloc(1000);

	(void)state;
	assert_int_equal(fake_counts.allocations, before + 2);
	away_leave(harness.session);
	assert_int_equal(fake_counts.allocations, before);
	assert_int_equal(away(), 42 * MIB);
	assert_int_equal(host_store_used(), 42 * MIB);
	assert_int_equal(account_taken(harness.session->account, RESOURCE_STORE), 42 * MIB);
	/* The addresses are still the client's. */
	assert_true(memory_check(harness.session, large, 40 * MIB));
	assert_true(memory_check(harness.session, small, 1000));
	assert_true(away_return(harness.session));
	assert_int_equal(fake_counts.allocations, before + 2);
	assert_int_equal(away(), 0);
	assert_int_equal(host_store_used(), 0);
	assert_int_equal(account_taken(harness.session->account, RESOURCE_STORE), 0);
	/* The store keeps its pieces. */
	assert_int_equal(harness.session->eviction->n_moves, 1);
	assert_int_equal(harness.session->eviction->bytes_in, 42 * MIB);
}

static void create_and_map(uint32_t id, uint64_t size, uint64_t *address)
{
	uint64_t region_size;
	uint32_t granted;

	assert_int_equal(send_address_region(size, address, &region_size), CUDA_SUCCESS);
	assert_int_equal(send_allocation_create(id, 0, size, 1, 0, &granted), CUDA_SUCCESS);
	assert_int_equal(send_allocation_map(id, *address, size), CUDA_SUCCESS);
	assert_int_equal(
		send_allocation_access(*address, size, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
		CUDA_SUCCESS);
}

static void test_allocations(void **state)
{
	int before = fake_counts.allocations, mappings = fake_counts.mappings;
	uint64_t address;

	(void)state;
	create_and_map(1, 8 * MIB, &address);
	/* One that is mapped twice leaves once. */
	assert_int_equal(send_allocation_map(1, address + 64 * MIB, 8 * MIB), CUDA_SUCCESS);
	away_leave(harness.session);
	assert_int_equal(away(), 8 * MIB);
	assert_int_equal(fake_counts.allocations, before);
	assert_int_equal(fake_counts.mappings, mappings);
	assert_true(away_return(harness.session));
	assert_int_equal(fake_counts.allocations, before + 1);
	assert_int_equal(fake_counts.mappings, mappings + 2);
	assert_true(memory_check(harness.session, address, 8 * MIB));
}

/* A stream with more copies than it takes holds up all launches: few are queued at a time. */
static void test_few_are_queued(void **state)
{
	uint64_t address;

	(void)state;
	create_and_map(1, 400 * MIB, &address);
	fake_calls.most_queued = fake_calls.queued = 0;
	away_leave(harness.session);
	assert_int_equal(away(), 400 * MIB);
	assert_true(fake_calls.most_queued <= 256 * MIB);
	fake_calls.most_queued = fake_calls.queued = 0;
	assert_true(away_return(harness.session));
	assert_int_equal(away(), 0);
	assert_true(fake_calls.most_queued <= 256 * MIB);
}

/* No copy begins while a quiet call waits for those that are queued. */
static void test_waits_for_quiet_calls(void **state)
{
	struct closed_gpu *closed = device_get(0)->closed;
	uint64_t end_ns = now_ns() + 20000000;

	(void)state;
	alloc(4 * MIB);
	closed_begin(closed, end_ns);
	away_leave(harness.session);
	assert_true(now_ns() >= end_ns);
	assert_int_equal(away(), 4 * MIB);
	closed_end(closed);
}

/* Others may have it: a token, or a descriptor. */
static void test_stays(void **state)
{
	uint64_t offered = alloc(4 * MIB), token[2], address;
	int fd;

	(void)state;
	assert_int_equal(send_ipc_memory_export(offered, 4 * MIB, token), CUDA_SUCCESS);
	away_leave(harness.session);
	assert_int_equal(away(), 0);
	create_and_map(1, 4 * MIB, &address);
	assert_int_equal(send_allocation_export(1), CUDA_SUCCESS);
	fd = harness_read_memory(1, 4 * MIB);
	close(fd);
	away_leave(harness.session);
	assert_int_equal(away(), 0);
}

static void test_only_as_much(void **state)
{
	struct eviction *own = harness.session->eviction;

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		alloc(4 * MIB);
	own->state = EVICTION_ASKED;
	own->request = (struct eviction_request){0, 10 * MIB};
	harness.session->memory_wanted = WANTED_EVICTION;
	away_serve(harness.session);
	assert_int_equal(away(), 12 * MIB);
	assert_int_equal(own->given, 12 * MIB);
	assert_int_equal(harness.session->memory_wanted, WANTED_RETURN);
}

/* For a thread beside the worker: until some bytes are away, and no more than `most'. */
static void wait_until_away(uint64_t most)
{
	for (unsigned i = 0; i < 20000 && (away() == 0 || away() > most); i++)
		usleep(1000);
}

/* What has come back already may be asked for again. */
static void *add_memory(void *arg)
{
	(void)arg;
	wait_until_away(12 * MIB);
	fake_set_memory(FAKE_MEMORY);
	return NULL;
}

static void *add_when_back(void *arg)
{
	(void)arg;
	wait_until_away(122 * MIB);
	fake_set_memory(FAKE_MEMORY);
	return NULL;
}

/* A large piece of memory leaves, and comes back, in parts. */
static void test_large_in_parts(void **state)
{
	struct eviction *own = harness.session->eviction;
	int before = fake_counts.allocations;
	uint64_t address = alloc(250 * MIB), start, size;
	pthread_t thread;

	(void)state;
	assert_int_equal(fake_counts.allocations, before + 2);
	own->state = EVICTION_ASKED;
	own->request = (struct eviction_request){0, 10 * MIB};
	harness.session->memory_wanted = WANTED_EVICTION;
	away_serve(harness.session);
	assert_int_equal(away(), 128 * MIB);
	assert_int_equal(fake_counts.allocations, before + 1);
	away_leave(harness.session);
	assert_int_equal(away(), 250 * MIB);
	assert_true(memory_check(harness.session, address, 250 * MIB));
	fake_switches.memory = 130 * MIB;
	assert_int_equal(pthread_create(&thread, NULL, add_when_back, NULL), 0);
	assert_true(away_return(harness.session));
	pthread_join(thread, NULL);
	assert_int_equal(fake_counts.allocations, before + 2);
	assert_true(arena_chunk(&harness.session->devices[0]->arena, address, &start, &size));
	assert_int_equal(size, 250 * MIB);
}

/* What is left of a piece, and what is away, both end. */
static void test_freed_in_parts(void **state)
{
	struct eviction *own = harness.session->eviction;
	int before = fake_counts.allocations;
	uint64_t address = alloc(250 * MIB);

	(void)state;
	own->state = EVICTION_ASKED;
	own->request = (struct eviction_request){0, 10 * MIB};
	harness.session->memory_wanted = WANTED_EVICTION;
	away_serve(harness.session);
	assert_int_equal(send_memory_free(address), CUDA_SUCCESS);
	assert_int_equal(harness_serve(), 0);
	assert_true(away_return(harness.session));
	assert_int_equal(fake_counts.allocations, before);
	assert_int_equal(host_store_used(), 0);
}

/* Bytes that are freed while they are away need not come back. */
static void test_freed_while_away(void **state)
{
	int before = fake_counts.allocations;
	uint64_t address = alloc(8 * MIB), small = alloc(100), n_free, after, total;

	(void)state;
	away_leave(harness.session);
	assert_int_equal(send_memory_info(0, &n_free, &total), CUDA_SUCCESS);
	assert_int_equal(send_memory_free(address), CUDA_SUCCESS);
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(send_memory_free(small), CUDA_SUCCESS);
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(send_memory_info(0, &after, &total), CUDA_SUCCESS);
	assert_int_equal(after, n_free + 10 * MIB);
	assert_int_equal(host_store_used(), 0);
	assert_true(away_return(harness.session));
	assert_int_equal(fake_counts.allocations, before);
}

/* close_session() checks that the driver has everything back. */
static void test_ends_while_away(void **state)
{
	uint64_t address;

	(void)state;
	alloc(8 * MIB);
	create_and_map(1, 4 * MIB, &address);
	away_leave(harness.session);
	assert_int_equal(away(), 12 * MIB);
}

/* Without memory for all of it, it waits, and no byte is lost. */
static void test_waits_for_space(void **state)
{
	pthread_t thread;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		alloc(4 * MIB);
	away_leave(harness.session);
	fake_switches.memory = 10 * MIB;
	assert_int_equal(pthread_create(&thread, NULL, add_memory, NULL), 0);
	assert_true(away_return(harness.session));
	pthread_join(thread, NULL);
	assert_int_equal(away(), 0);
}

static void test_ends_while_it_waits(void **state)
{
	(void)state;
	alloc(4 * MIB);
	away_leave(harness.session);
	fake_switches.memory = 0;
	atomic_store(&harness.session->is_ending, true);
	assert_false(away_return(harness.session));
	assert_int_equal(away(), 4 * MIB);
	atomic_store(&harness.session->is_ending, false);
	fake_switches.memory = FAKE_MEMORY;
}

static void *end_hold(void *arg)
{
	(void)arg;
	wait_until_away(4 * MIB);
	eviction_hold(harness.session, false);
	return NULL;
}

/* A session that is held has its memory back when the hold has ended. */
static void test_held(void **state)
{
	pthread_t thread;

	(void)state;
	alloc(4 * MIB);
	eviction_hold(harness.session, true);
	away_serve(harness.session);
	assert_int_equal(away(), 4 * MIB);
	assert_int_equal(pthread_create(&thread, NULL, end_hold, NULL), 0);
	assert_true(away_return(harness.session));
	pthread_join(thread, NULL);
	assert_int_equal(away(), 0);
}

/* It begins while the worker waits to execute a message. */
static void test_held_late(void **state)
{
	pthread_t thread;

	(void)state;
	alloc(4 * MIB);
	harness.session->eviction->is_held = true;
	assert_int_equal(pthread_create(&thread, NULL, end_hold, NULL), 0);
	assert_true(away_return(harness.session));
	pthread_join(thread, NULL);
	assert_int_equal(away(), 0);
}

/* A message that waits for memory is not executed without it when the session ends. */
static void test_ends_before_a_message(void **state)
{
	uint64_t address, heap, size, granularity, limits[16];
	unsigned fills = fake_calls.fills;
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	harness.session->limits.oversubscribe = OVERSUBSCRIBE_YES;
	harness_start_worker();
	assert_int_equal(send_device_open(0, 0, 0, &n_sms, &heap, &size, &granularity, &least,
				 &greatest, limits),
		CUDA_SUCCESS);
	address = alloc(4 * MIB);
	assert_int_equal(send_fill(0, address, 7, 1, 16, 16, 1), CUDA_SUCCESS);
	send_memory_info(0, &size, &size);
	assert_int_equal(fake_calls.fills, ++fills);
	for (unsigned i = 0; away() == 0; i++) {
		assert_true(i < 5000);
		eviction_hold(harness.session, true);
		usleep(1000);
	}
	assert_int_equal(send_fill(0, address, 7, 1, 16, 16, 1), CUDA_SUCCESS);
	usleep(20000);
	harness_close();
	assert_int_equal(fake_calls.fills, fills);
}

/* Whatever call of the driver fails, what is lost is time. */
static void test_refusals(void **state)
{
	(void)state;
	alloc(4 * MIB);
	for (unsigned i = 0; i < 6; i++) {
		fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
		away_leave(harness.session);
		fake_switches.fail_next = 0;
		away_leave(harness.session);
		assert_int_equal(away(), 4 * MIB);
		fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
		assert_true(away_return(harness.session));
		fake_switches.fail_next = 0;
		assert_int_equal(away(), 0);
	}
}

static CUresult meet_fault(_unused_ CUstream stream)
{
	return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* A fault while memory comes back: what may have no bytes is away, with its bytes in the store. */
static void test_fault_on_return(void **state)
{
	const struct cuda_api real = cuda;
	uint64_t address, large = alloc(40 * MIB);

	(void)state;
	create_and_map(1, 8 * MIB, &address);
	away_leave(harness.session);
	cuda.cuStreamQuery = meet_fault;
	assert_false(away_return(harness.session));
	cuda = real;
	assert_int_equal(away(), 48 * MIB);
	assert_int_equal(host_store_used(), 48 * MIB);
	fault_forget();
	assert_true(away_return(harness.session));
	assert_int_equal(away(), 0);
	assert_true(memory_check(harness.session, large, 40 * MIB));
	assert_true(memory_check(harness.session, address, 8 * MIB));
}

/* ---- who is asked */

#define CANDIDATES 4

static struct candidate {
	struct session session;
	struct eviction eviction;
	struct device_quota quota;
} candidates[CANDIDATES];

static char asked[16]; /* "20": the numbers of those that were asked, in order */
static atomic_bool is_over;
static bool is_store_full;

/* All workers: each gives what it is asked for, or all it has. */
static void *answer_all(void *arg)
{
	struct eviction_request request;

	(void)arg;
	while (!atomic_load(&is_over)) {
		for (unsigned i = 0; i < CANDIDATES; i++) {
			struct candidate *one = &candidates[i];
			uint64_t has = one->quota.quota.used - one->eviction.away[0];

			if (!one->eviction.session ||
				!eviction_take_request(&one->session, &request))
				continue;
			asked[strlen(asked)] = (char)('0' + i);
			has = is_store_full ? 0 : MIN(has, request.bytes);
			one->eviction.away[0] += has;
			eviction_answer(
				&one->session, has, is_store_full ? STAY_STORE : STAY_NOTHING);
		}
		usleep(100);
	}
	return NULL;
}

/* Of a row: its letter says what the session is. */
enum kind {
	ABSENT = '-',
	IDLE = 'i',
	FRESH = 'f',
	OFF = 'o',
	BUSY = 'b',
	WAITS = 'w',
	BORROWS = 's',      /* idle, without `oversubscribe', with 4 bytes beyond its soft limit */
	WAITS_BEYOND = 'v', /* such a one that waits for space */
	BORROWS_TOO = 'r',  /* with `oversubscribe' */
	INSIDE = 'h',       /* idle, without `oversubscribe', inside its soft limit */
	COMES_BACK = 'n'    /* waits, without either, and one of its bytes is away */
};

static const struct row {
	const char *name;
	const char *kinds; /* of the candidates; the first is idle for longest */
	uint64_t bytes, since_ns;
	const char *asked;
	uint64_t given;
	enum eviction_stay stay;
	uint64_t soft; /* of the one that asks, which has nothing, without `oversubscribe'; 0: none
			*/
} rows[] = {
	{"nobody is there", "----", 5, 0, "", 0, STAY_NOTHING, 0},
	{"the one that is idle for longest", "iiii", 5, 0, "0", 5, STAY_NOTHING, 0},
	{"as many as it takes", "iiii", 25, 0, "012", 25, STAY_NOTHING, 0},
	{"all of them", "iiii", 50, 0, "0123", 40, STAY_NOTHING, 0},
	{"not one that has just made a call", "fii-", 5, 0, "1", 5, STAY_AT_WORK, 0},
	{"only such ones", "ff--", 5, 0, "", 0, STAY_AT_WORK, 0},
	{"not without the setting", "oi--", 15, 0, "1", 10, STAY_OFF, 0},
	{"not one that moves memory", "bi--", 15, 0, "1", 10, STAY_AT_WORK, 0},
	{"new memory: one that waits", "w---", 5, 0, "0", 5, STAY_NOTHING, 0},
	{"one that waits: not one that has waited longer", "w---", 5, 200, "", 0, STAY_AT_WORK, 0},
	{"... but one that came later", "w---", 5, 50, "0", 5, STAY_NOTHING, 0},
	{"inside the soft limit: what is borrowed", "s---", 5, 0, "0", 4, STAY_NOTHING, 100},
	{"... of as many as it takes", "ss--", 5, 0, "01", 5, STAY_NOTHING, 100},
	{"... not what is not", "hhoi", 5, 0, "", 0, STAY_OFF, 100},
	{"... also of one that has waited longer", "v---", 5, 200, "0", 4, STAY_NOTHING, 100},
	{"borrowers first", "iir-", 5, 0, "2", 5, STAY_NOTHING, 0},
	{"both come back: what a later one has got", "on--", 20, 50, "1", 9, STAY_OFF, 1000},
	{"... not for new memory", "on--", 20, 0, "", 0, STAY_OFF, 1000},
	{"... inside the soft limit, of one that has waited longer", "on--", 20, 200, "1", 9,
		STAY_OFF, 1000},
	{"room in a group: its members", "sSsS", 5, 0, "13", 5, STAY_NOTHING, 100},
	{"... what they have borrowed", "sHOs", 5, 0, "", 0, STAY_OFF, 100},
	{"... all, if they oversubscribe", "iIfO", 15, 0, "1", 10, STAY_OFF, 0},
};

/* Members of it have a capital as their kind. */
static struct group full_group;

static void make_candidate(unsigned i, enum kind letter)
{
	const enum kind kind = tolower(letter);
	struct candidate *one = &candidates[i];
	uint64_t now = now_ns();

	memset(one, 0, sizeof(*one));
	if (kind == ABSENT)
		return;
	one->session.id = 100 + i;
	one->session.eviction = &one->eviction;
	one->session.receiver.control = harness.session->receiver.control;
	one->session.limits.oversubscribe =
		strchr("osvhn", kind) ? OVERSUBSCRIBE_NO : OVERSUBSCRIBE_YES;
	one->session.limits.soft[0] = UINT64_MAX;
	if (strchr("svhr", kind))
		one->session.limits.soft[0] = kind == INSIDE ? 10 : 6;
	one->session.cgroups[1] = kind != letter ? &full_group : NULL;
	one->session.quotas[0] = &one->quota;
	one->quota.quota.used = 10;
	for (unsigned k = 0; k < DEVICES_MAX; k++)
		full_group.soft[k] = UINT64_MAX;
	eviction_join(&one->session);
	eviction_note_idle(&one->session, kind == FRESH ? now : now - 1000000000 + i);
	if (kind == FRESH) {
		/* On a slow machine it rests for longer than a session needs to rest. */
		one->eviction.turn.here_ns = now;
		atomic_store(&one->eviction.move_ns, UINT64_C(3600000000000));
	}
	one->eviction.away[0] = kind == COMES_BACK;
	if (strchr("bwvn", kind))
		eviction_set_busy(&one->session, true, kind == BUSY ? 0 : 100);
}

static const struct group *group_of(const struct row *row)
{
	return strpbrk(row->kinds, "SHOI") ? &full_group : NULL;
}

static void test_choice(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&is_over, false);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		enum eviction_stay stay;

		memset(asked, 0, sizeof(asked));
		harness.session->limits.soft[0] = row->soft ? row->soft : UINT64_MAX;
		harness.session->eviction->away[0] = row->since_ns > 0 && row->soft == 1000;
		harness.session->limits.oversubscribe =
			row->soft ? OVERSUBSCRIBE_NO : OVERSUBSCRIBE_YES;
		for (unsigned k = 0; k < CANDIDATES; k++)
			make_candidate(k, row->kinds[k]);
		atomic_store(&is_over, false);
		assert_int_equal(pthread_create(&thread, NULL, answer_all, NULL), 0);
		assert_int_equal(eviction_make_space(harness.session,
					 &(struct eviction_lack){0, row->bytes, group_of(row)},
					 row->since_ns, &stay),
			row->given);
		atomic_store(&is_over, true);
		pthread_join(thread, NULL);
		if (strcmp(asked, row->asked) != 0 || stay != row->stay)
			fail_msg("%s: asked %s, stay %d", row->name, asked, (int)stay);
		for (unsigned k = 0; k < CANDIDATES; k++)
			if (candidates[k].eviction.session)
				eviction_leave(&candidates[k].session);
	}
}

/* The driver lacks memory for code or a graph: an idle session makes space, and it is tried again.
 */
static void test_for_the_driver(void **state)
{
	struct session_device *sdev = harness.session->devices[0];
	pthread_t thread;

	(void)state;
	assert_false(space_make_for_driver(harness.session, sdev, CUDA_ERROR_OUT_OF_MEMORY, 0));
	make_candidate(0, IDLE);
	memset(asked, 0, sizeof(asked));
	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&thread, NULL, answer_all, NULL), 0);
	assert_false(space_make_for_driver(harness.session, sdev, CUDA_SUCCESS, 0));
	assert_false(space_make_for_driver(harness.session, sdev, CUDA_ERROR_OUT_OF_MEMORY, 99));
	assert_string_equal(asked, "");
	assert_true(space_make_for_driver(harness.session, sdev, CUDA_ERROR_OUT_OF_MEMORY, 0));
	assert_string_equal(asked, "0");
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	harness.session->limits.oversubscribe = OVERSUBSCRIBE_NO;
	assert_false(space_make_for_driver(harness.session, sdev, CUDA_ERROR_OUT_OF_MEMORY, 0));
	eviction_leave(&candidates[0].session);
}

/* As the loop does at the news that it has to. */
static void end_candidate(void *arg)
{
	borrowers_note_end(arg);
}

/* ... or a borrower ends, whose memory cannot leave: only if the GPU is full. */
static void test_end_for_the_driver(void **state)
{
	struct session_device *sdev = harness.session->devices[0];
	struct session *borrower = &candidates[0].session;
	size_t n_free, total;
	pthread_t thread;

	(void)state;
	alloc(4 * MIB);
	make_candidate(0, BORROWS);
	candidates[0].quota.quota.used = 64 * MIB;
	borrower->on_news = end_candidate;
	borrower->on_news_arg = borrower;
	harness.session->limits.oversubscribe = OVERSUBSCRIBE_NO;
	is_store_full = true;
	atomic_store(&is_over, false);
	assert_int_equal(pthread_create(&thread, NULL, answer_all, NULL), 0);
	for (unsigned is_full = 0; is_full < 2; is_full++)
		for (unsigned is_inside = 0; is_inside < 2; is_inside++) {
			atomic_store(&borrower->has_to_end, false);
			harness.session->eviction->ended_at = 0;
			fake_switches.memory = FAKE_MEMORY;
			assert_int_equal(cuda.cuMemGetInfo_v2(&n_free, &total), CUDA_SUCCESS);
			fake_switches.memory -= is_full ? n_free - MIB : 0;
			harness.session->limits.soft[0] = is_inside ? 64 * MIB : 0;
			assert_int_equal(space_make_for_driver(harness.session, sdev,
						 CUDA_ERROR_OUT_OF_MEMORY, 0),
				is_full && is_inside);
			assert_int_equal(borrower->has_to_end, is_full && is_inside);
		}
	is_store_full = false;
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	eviction_leave(borrower);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_big_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_leaves_and_returns),
		TEST(test_allocations),
		TEST(test_few_are_queued),
		TEST(test_waits_for_quiet_calls),
		TEST(test_stays),
		TEST(test_only_as_much),
		TEST(test_large_in_parts),
		TEST(test_freed_in_parts),
		TEST(test_freed_while_away),
		TEST(test_ends_while_away),
		TEST(test_waits_for_space),
		TEST(test_ends_while_it_waits),
		TEST(test_held),
		TEST(test_held_late),
		TEST(test_refusals),
		TEST(test_fault_on_return),
		TEST(test_choice),
		TEST(test_for_the_driver),
		TEST(test_end_for_the_driver),
		cmocka_unit_test(test_ends_before_a_message),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
