/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory and events with tokens, over the counting driver: which session may open
 * them, and that nothing is left. tests/system/test_memory.py tests it between processes.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/util/pack.h"
#include "server/session/session_move.h"
#include "server/session/session_part.h"
#include "server/driver/owner.h"
#include "server/replay.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)

static uint64_t heap, memory;

static int open_session(void **state)
{
	uint64_t heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	memset(&fake_calls, 0, sizeof(fake_calls));
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	assert_int_equal(send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least,
				 &greatest, limits),
		CUDA_SUCCESS);
	assert_int_equal(send_memory_alloc(0, 4 * MIB, &memory), CUDA_SUCCESS);
	return 0;
}

static int close_session(void **state)
{
	(void)state;
	harness_close();
	return 0;
}

static CUresult settle(void)
{
	harness_serve();
	return harness_late_error();
}

static void test_memory(void **state)
{
	uint64_t token[2], same[2], address, size;
	uint32_t device, is_open = 7;

	(void)state;
	assert_int_equal(
		send_ipc_memory_export(memory, 4 * MIB + 1, token), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_ipc_memory_export(memory - 1, 1, token), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_ipc_memory_export(UINT64_MAX, 2, token), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_ipc_memory_export(memory, MIB, token), CUDA_SUCCESS);
	assert_int_equal(send_ipc_memory_export(memory, MIB, same), CUDA_SUCCESS);
	assert_memory_equal(token, same, sizeof(token));
	assert_int_equal(send_ipc_memory_export(memory, 2 * MIB, same), CUDA_ERROR_INVALID_VALUE);
	/* Neither its owner nor a guessed token can open it. */
	assert_int_equal(
		send_ipc_memory_open(token, &address, &size, &device), CUDA_ERROR_INVALID_CONTEXT);
	same[0] ^= 1;
	assert_int_equal(
		send_ipc_memory_open(same, &address, &size, &device), CUDA_ERROR_INVALID_VALUE);
	send_ipc_memory_close(memory);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_ipc_memory_end(memory, &is_open), CUDA_SUCCESS);
	assert_int_equal(is_open, 0);
	assert_int_equal(
		send_ipc_memory_open(token, &address, &size, &device), CUDA_ERROR_INVALID_VALUE);
	/* Later memory at that address has another token; it is left for the session's end. */
	assert_int_equal(send_ipc_memory_export(memory, MIB, same), CUDA_SUCCESS);
	assert_memory_not_equal(token, same, sizeof(token));
}

static void test_events(void **state)
{
	uint64_t token[2], same[2];

	(void)state;
	send_event_create(1, 2);
	assert_int_equal(send_ipc_event_query(1), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_export(1, 1, token), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(send_ipc_event_export(1, 0, token), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_export(1, 0, same), CUDA_SUCCESS);
	assert_memory_equal(token, same, sizeof(token));
	assert_int_equal(send_ipc_event_open(2, token), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_open(2, token), CUDA_ERROR_INVALID_VALUE);
	same[1] ^= 1;
	assert_int_equal(send_ipc_event_open(3, same), CUDA_ERROR_INVALID_HANDLE);
	send_event_record(2, 0, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	fake_switches.is_busy = true;
	assert_int_equal(send_ipc_event_query(1), CUDA_ERROR_NOT_READY);
	fake_switches.is_busy = false;
	/* Its creator ends first. */
	send_event_destroy(1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_query(2), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_open(4, token), CUDA_SUCCESS);
	send_event_destroy(2);
	assert_int_equal(settle(), CUDA_SUCCESS);
}

/* What another server gets: counts and addresses by their places. */
enum {
	N_SHARES = 0,
	SHARE_TOKEN = 1,
	SHARE_ADDRESS = 3,
	SHARE_SIZE = 4,
	N_OPENED = 5,
	OPENED_TOKEN = 6,
	OPENED_ADDRESS = 8,
	OPENED_SIZE = 9,
	WORDS = 10,
};

static const struct row {
	const char *what;
	unsigned at;
	uint64_t value; /* is added */
	int check, unpack, join;
} rows[] = {
	{"nothing is wrong", WORDS, 0, 0, 0, 0},
	{"one share more", N_SHARES, 1, -EBADMSG, -EBADMSG, 0},
	{"too many", N_SHARES, UINT32_MAX, -EBADMSG, -EBADMSG, 0},
	{"another address", SHARE_ADDRESS, 64, 0, 0, -EBADMSG},
	{"memory that is not there", SHARE_ADDRESS, 64 * MIB, 0, -EBADMSG, 0},
	{"memory of nobody", SHARE_ADDRESS, VA_WINDOW, 0, -EBADMSG, 0},
	{"an address of the host", SHARE_ADDRESS, DEVICE_SPACE_END, -EBADMSG, -EBADMSG, 0},
	{"no size", SHARE_SIZE, -MIB, -EBADMSG, -EBADMSG, 0},
	{"a size that is too large", SHARE_SIZE, 64 * MIB, 0, -EBADMSG, 0},
	{"one more that is open", N_OPENED, 1, -EBADMSG, -EBADMSG, 0},
	{"another token", OPENED_TOKEN, 1, 0, 0, -ENXIO},
	{"open at another address", OPENED_ADDRESS, 64, 0, 0, -EBADMSG},
	{"open with another size", OPENED_SIZE, 64, 0, 0, -EBADMSG},
	{"open below all memory", OPENED_ADDRESS, -DEVICE_SPACE, -EBADMSG, -EBADMSG, 0},
};

static void check_row(const struct row *row, const struct pack *packed, uid_t uid)
{
	struct session *session = harness.session;
	struct pack pack = *packed, copy;
	uint64_t words[WORDS + 1];
	int r;

	assert_int_equal(packed->size, WORDS * sizeof(uint64_t));
	memcpy(words, packed->bytes, packed->size);
	words[row->at] += row->value;
	pack.bytes = (uint8_t *)words;
	copy = pack;
	assert_int_equal(ipc_part.check(session, &copy), row->check);
	r = ipc_part.unpack(session, &pack);
	assert_int_equal(r, row->unpack);
	/* It is another session there. */
	session->id++;
	session->uid += uid;
	if (r == 0)
		assert_int_equal(ipc_part.join(session), uid ? -ENXIO : row->join);
	session->uid -= uid;
	session->id--;
	ipc_part.end(session, false);
	session->n_shares = 0;
}

static void test_moves(void **state)
{
	struct pack pack = {0};
	uint64_t token[2], address, size;
	uint32_t device;

	(void)state;
	assert_int_equal(send_ipc_memory_export(memory, MIB, token), CUDA_SUCCESS);
	harness.session->id++;
	assert_int_equal(send_ipc_memory_open(token, &address, &size, &device), CUDA_SUCCESS);
	harness.session->id--;
	assert_int_equal(ipc_part.pack(harness.session, &pack), 0);
	send_ipc_memory_close(memory);
	assert_int_equal(settle(), CUDA_SUCCESS);
	ipc_part.end(harness.session, false);
	harness.session->n_shares = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i], &pack, 0);
	/* Of another user. */
	check_row(&rows[0], &pack, 1);
	pack_fini(&pack);
}

/* The same of events: the second one is open, and comes first. */
enum {
	N_USERS = 0,
	USER_EVENT = 1,
	USER_DEVICE = 2,
	USER_TOKEN = 3,
	OTHER_DEVICE = 6,
	EVENT_WORDS = 9,
};

static const struct event_row {
	const char *what;
	unsigned at;
	uint64_t value; /* is added */
	int check, unpack;
	int n_events; /* of the driver, then */
} event_rows[] = {
	{"nothing is wrong", EVENT_WORDS, 0, 0, 0, 1},
	{"one user more", N_USERS, 1, -EBADMSG, -EBADMSG, 1},
	{"too many", N_USERS, WIRE_EVENTS_MAX, -EBADMSG, -EBADMSG, 0},
	{"an event that is too large", USER_EVENT, WIRE_EVENTS_MAX, -EBADMSG, -EBADMSG, 0},
	{"a GPU that is too large", USER_DEVICE, DEVICES_MAX, -EBADMSG, -EBADMSG, 0},
	{"a GPU that is not open", USER_DEVICE, 1, 0, -EBADMSG, 0},
	{"two GPUs of one event", OTHER_DEVICE, 1, 0, -EBADMSG, 1},
	{"another token", USER_TOKEN, 1, 0, 0, 2},
};

static void check_event_row(const struct event_row *row, const struct pack *packed)
{
	struct session *session = harness.session;
	const int before = fake_counts_now().events;
	struct pack pack = *packed, copy;
	uint64_t words[EVENT_WORDS + 1];

	assert_int_equal(packed->size, EVENT_WORDS * sizeof(uint64_t));
	memcpy(words, packed->bytes, packed->size);
	words[row->at] += row->value;
	pack.bytes = (uint8_t *)words;
	copy = pack;
	assert_int_equal(shared_events_part.check(session, &copy), row->check);
	assert_int_equal(shared_events_part.unpack(session, &pack), row->unpack);
	if (fake_counts_now().events != before + row->n_events)
		fail_msg("%s: %d events", row->what, fake_counts_now().events - before);
	shared_events_part.end(session, false);
	assert_int_equal(fake_counts_now().events, before);
}

static void share_events(uint64_t ret_token[2])
{
	send_event_create(1, CU_EVENT_DISABLE_TIMING);
	assert_int_equal(send_ipc_event_export(1, 0, ret_token), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_open(2, ret_token), CUDA_SUCCESS);
}

static void test_wrong_events(void **state)
{
	struct pack pack = {0};
	uint64_t token[2];

	(void)state;
	share_events(token);
	assert_int_equal(shared_events_part.pack(harness.session, &pack), 0);
	send_event_destroy(1);
	send_event_destroy(2);
	assert_int_equal(settle(), CUDA_SUCCESS);
	for (unsigned i = 0; i < ARRAY_SIZE(event_rows); i++)
		check_event_row(&event_rows[i], &pack);
	pack_fini(&pack);
}

static void move(void)
{
	struct pack pack = {0};

	assert_null(session_stays(harness.session));
	assert_int_equal(replay_pack(harness.session, &pack), 0);
	assert_int_equal(session_pack(harness.session, &pack), 0);
	harness_close();
	harness_open(false);
	assert_int_equal(replay_unpack(harness.session, &pack), 0);
	assert_int_equal(session_check(harness.session, &pack), 0);
	assert_int_equal(session_unpack(harness.session, &pack), 0);
	pack_fini(&pack);
}

/* Another session has a user of it, or not. */
static void assert_needs(const uint64_t token[2])
{
	struct session other = {.id = harness.session->id + 1};

	assert_false(shared_events_part.needs(harness.session, NULL));
	assert_false(shared_events_part.needs(harness.session, &other));
	harness.session->id++;
	assert_int_equal(send_ipc_event_open(3, token), CUDA_SUCCESS);
	harness.session->id--;
	assert_true(shared_events_part.needs(harness.session, &other));
	send_event_destroy(3);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_false(shared_events_part.needs(harness.session, &other));
}

/* Also twice before a replay. Both events are the same one, with the same token. */
static void test_event_moves(void **state)
{
	uint64_t token[2], same[2];
	int before = fake_counts_now().events;

	(void)state;
	share_events(token);
	move();
	move();
	assert_int_equal(fake_counts_now().events, before + 1);
	assert_true(replay_run(harness.session));
	assert_int_equal(fake_counts_now().events, before + 1);
	harness.session->receiver.head = 0;
	assert_int_equal(send_ipc_event_export(1, 0, same), CUDA_SUCCESS);
	assert_memory_equal(token, same, sizeof(token));
	assert_needs(token);
	send_event_destroy(1);
	send_event_destroy(2);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().events, before);
	assert_int_equal(send_ipc_event_open(3, token), CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_events, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_moves, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_wrong_events, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_event_moves, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
