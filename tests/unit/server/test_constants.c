/* SPDX-License-Identifier: Apache-2.0 */

/* Constants that go to another server, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "managed_cubin.h"
#include "open_session.h"
#include "record_rules.h"
#include "server/session/fault.h"
#include "server/session/session_part.h"
#include "server/share/session_device.h"
#include "server/module/constants.h"
#include "server/module/library.h"
#include "server/module/library_load.h"

enum {
	LIBRARY = 3,
	WORDS = FAKE_GLOBAL_SIZE / 8,
	ADDRESS = 0x100, /* in a note's index, with the GPU's number, which is 0 */
	SIZE = 0x200,
	WORD = 0x300,
	MIB = 1 << 20,
};

#define ELSEWHERE 0x700000000000ull

static struct library *library(void)
{
	return handle_get(&harness.session->libraries, LIBRARY);
}

/* A library whose constant the client knows. */
static uint64_t load(void)
{
	struct cubin_file file = plain_cubin();
	uint64_t address, size;

	harness_send_image(&file, sizeof(file));
	assert_int_equal(send_library_load(LIBRARY, sizeof(file)), CUDA_SUCCESS);
	assert_int_equal(
		send_library_global(LIBRARY, 0, "a constant", &address, &size), CUDA_SUCCESS);
	assert_int_equal(size, FAKE_GLOBAL_SIZE);
	return address;
}

static bool recall(uint32_t index, uint64_t value)
{
	const struct record_note note = {RECORD_LIBRARY, LIBRARY, index, 0, value};

	assert_true(constants_is_note(&note));
	return constants_recall(harness.session, library(), &note);
}

static CUresult restore(uint64_t address, uint64_t size)
{
	return constants_restore(harness.session, library(), session_device_get(harness.session, 0),
		address, size, address);
}

static void test_there_and_back(void **state)
{
	struct record_notes notes = {0};
	const struct record_note *note;
	uint64_t address = load();
	uint32_t at = 0, n = 0;

	(void)state;
	assert_null(constants_obstacle(harness.session));
	constants_note(harness.session, &notes);
	assert_false(notes.is_short);
	while ((note = record_notes_next(&notes, RECORD_LIBRARY, LIBRARY, &at))) {
		assert_true(constants_is_note(note));
		assert_true(constants_recall(harness.session, library(), note));
		n++;
	}
	assert_int_equal(n, 2 + WORDS);
	record_notes_fini(&notes);
	n = fake_calls.copies;
	assert_int_equal(restore(address, FAKE_GLOBAL_SIZE), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, n + 1);
	assert_int_equal(restore(address, FAKE_GLOBAL_SIZE), CUDA_ERROR_INVALID_VALUE);
}

/* The notes are bytes of another process. */
static void test_wrong_notes(void **state)
{
	uint64_t address = load();

	(void)state;
	assert_false(recall(WORD, 1));
	assert_true(recall(ADDRESS, address));
	assert_false(recall(SIZE, MIB + 1));
	assert_false(recall(SIZE, UINT64_MAX));
	assert_true(recall(SIZE, 0));
	assert_false(recall(WORD, 1));
	assert_true(recall(SIZE, 12));
	assert_true(recall(WORD, 1));
	/* Not all of its bytes. */
	assert_int_equal(restore(address, 12), CUDA_ERROR_INVALID_VALUE);
	assert_true(recall(WORD, 2));
	assert_false(recall(WORD, 3));
	assert_false(recall(WORD + 0x100, 3));
	assert_int_equal(restore(address, 8), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(restore(address + 8, 12), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(restore(address, 12), CUDA_SUCCESS);
	/* The rest goes with the library. */
	assert_true(recall(SIZE, 100));
}

/* Where the client's address is not that of the driver. */
static void test_moved(void **state)
{
	struct session *session = harness.session;
	struct range range = {.address = ELSEWHERE, .size = 64, .real = load() + 64};

	(void)state;
	assert_int_equal(ranges_add(&session->variables, &range), 0);
	assert_int_equal(memory_find(session, ELSEWHERE + 8, 56), range.real + 8);
	assert_int_equal(memory_find(session, ELSEWHERE + 8, 57), 0);
	assert_false(memory_check(session, ELSEWHERE + 8, 56));
	assert_true(memory_check(session, range.real, 64));
	/* The driver aborts at addresses that it does not know. */
	send_copy_device(0, ELSEWHERE, range.real + 64, 16);
	send_copy_device(0, range.real + 64, ELSEWHERE + 16, 16);
	harness_serve();
}

/* The session rests: whether copies of its constants were made then. */
static bool keeps(void)
{
	unsigned n = fake_calls.copies;

	assert_int_equal(constants_are_kept(harness.session), false);
	constants_keep(harness.session);
	assert_true(constants_are_kept(harness.session));
	return fake_calls.copies > n;
}

/* A fault of the GPU takes what has changed since the session rested. */
static void test_kept(void **state)
{
	const uint64_t address = load();
	struct record_notes notes = {0};
	unsigned n;

	(void)state;
	assert_true(keeps());
	send_fill(0, address, 0, 1, 16, 0, 1);
	harness_serve();
	assert_true(keeps());
	n = fake_calls.copies;
	(void)fault_note(harness.session, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_null(constants_obstacle(harness.session));
	constants_note(harness.session, &notes);
	assert_false(notes.is_short);
	assert_int_equal(fake_calls.copies, n);
	record_notes_fini(&notes);
	assert_true(memory_find(harness.session, address, 1) > 0);
	assert_non_null(constants_obstacle(harness.session));
	fault_forget();
	assert_true(keeps());
}

/* Launches of a graph change them without another message that names them. */
static void test_kept_in_graph(void **state)
{
	const uint64_t address = load();
	uint32_t error_node;

	(void)state;
	send_graph_begin(1, 0);
	send_graph_fill(1, 0, address, 0, 1, 16, 0, 1);
	assert_int_equal(send_graph_instantiate(1, 1, 0, &error_node), CUDA_SUCCESS);
	assert_true(keeps());
	for (unsigned i = 0; i < 2; i++) {
		send_graph_launch(0, 1);
		harness_serve();
		assert_true(keeps());
	}
	send_graph_destroy(1);
	harness_serve();
}

/* What cannot move anyway is not read. */
static void test_not_kept(void **state)
{
	unsigned n;

	(void)state;
	load();
	assert_false(libraries_part.is_settled(harness.session));
	n = fake_calls.copies;
	library_set_reason(harness.session, library(), PLACED_BY_DRIVER);
	assert_true(libraries_part.is_settled(harness.session));
	libraries_part.keep(harness.session);
	assert_int_equal(fake_calls.copies, n);
}

/* A message that makes space looks at all parts before it writes. */
static void test_written_meanwhile(void **state)
{
	unsigned n;

	(void)state;
	load();
	n = fake_calls.copies;
	each_part(session_parts, poll, harness.session);
	assert_int_equal(fake_calls.copies, n);
	assert_false(constants_are_kept(harness.session));
}

/* Whose address the client asks for again after a move. */
static void test_one_address(void **state)
{
	struct ranges *variables = &harness.session->variables;
	const uint64_t real = load();
	uint64_t address, size;

	(void)state;
	variables->list[0].address = ELSEWHERE;
	assert_int_equal(
		send_library_global(LIBRARY, 0, "a constant", &address, &size), CUDA_SUCCESS);
	assert_int_equal(address, ELSEWHERE);
	assert_int_equal(variables->n, 1);
	assert_int_equal(memory_find(harness.session, ELSEWHERE, 1), real);
}

static void test_too_large(void **state)
{
	struct range range = {
		.address = ELSEWHERE, .size = MIB, .real = ELSEWHERE, .is_variable = true};

	(void)state;
	load();
	assert_int_equal(ranges_add(&harness.session->variables, &range), 0);
	assert_non_null(constants_obstacle(harness.session));
	ranges_remove(&harness.session->variables, NULL);
	assert_null(constants_obstacle(harness.session));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_there_and_back),
		TEST(test_wrong_notes),
		TEST(test_moved),
		TEST(test_kept),
		TEST(test_kept_in_graph),
		TEST(test_not_kept),
		TEST(test_one_address),
		TEST(test_written_meanwhile),
		TEST(test_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
