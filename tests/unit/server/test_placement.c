/* SPDX-License-Identifier: Apache-2.0 */

/* Variables of libraries in the session's own memory, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "managed_cubin.h"
#include "open_session.h"
#include "server/session/session_part.h"
#include "server/schedule/deferred.h"
#include "server/stream/stream.h"
#include "server/memory/space.h"
#include "server/module/globals.h"
#include "server/module/library.h"
#include "server/module/library_load.h"
#include "server/module/placement.h"

enum {
	LIBRARY = 3,
	KERNEL = 5,
	FIRST_OFFSET = GLOBALS_ALIGN + 8,
};

static void load_unplaced(const void *image, size_t size)
{
	harness.session->limits.oversubscribe = OVERSUBSCRIBE_NO;
	harness_send_image(image, size);
	assert_int_equal(send_library_load(LIBRARY, size), CUDA_SUCCESS);
}

static void load(const void *image, size_t size)
{
	load_unplaced(image, size);
	harness.session->limits.oversubscribe = OVERSUBSCRIBE_YES;
}

static void unload(void)
{
	send_library_unload(LIBRARY);
	harness_serve();
}

/* How many libraries the driver has, when the deferred thread has ended those that have to end. */
static int n_libraries(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned i = 0; i < 5000 && !deferred_has_made(deferred_n_added()); i++)
		nanosleep(&pause, NULL);
	return fake_counts_now().libraries;
}

static struct library *library(void)
{
	return handle_get(&harness.session->libraries, LIBRARY);
}

static const struct arena *arena(void)
{
	return &session_device_get(harness.session, 0)->arena;
}

/* The address of a variable; whether it is memory of the session. */
static bool is_own(const char *name, uint64_t *ret_address)
{
	uint64_t size = 0;

	assert_int_equal(send_library_global(LIBRARY, 0, name, ret_address, &size), CUDA_SUCCESS);
	return arena_has(arena(), *ret_address, size);
}

static void test_placed(void **state)
{
	struct cubin_file file = plain_cubin();
	uint64_t first, second;
	uint64_t before = arena()->unused_bytes;

	(void)state;
	load(&file, sizeof(file));
	assert_int_equal(library_place(library(), 0), 0);
	assert_true(is_own("first", &first));
	assert_true(is_own("second", &second));
	assert_int_equal(first - second, FIRST_OFFSET - 4);
	assert_int_equal(library_place(library(), 0), first - FIRST_OFFSET);
	assert_null(library_immovable(harness.session));
	/* The image, and the changed one. */
	assert_int_equal(n_libraries(), 2);
	/* Only what is not in the code is the driver's. */
	assert_false(is_own("a constant", &first));
	unload();
	assert_true(arena()->unused_bytes > before);
}

/* The first kernel is enough; then all variables are there. */
static void test_kernel_first(void **state)
{
	struct cubin_file file = plain_cubin();
	struct param_layout params[8];
	int32_t attributes[16];
	uint32_t bytes, prints, n;

	(void)state;
	load(&file, sizeof(file));
	assert_int_equal(send_library_kernel(LIBRARY, KERNEL, "kernel", attributes), CUDA_SUCCESS);
	assert_int_equal(library_place(library(), 0), 0);
	assert_int_equal(send_kernel_params(KERNEL, &bytes, &prints, params, 8, &n), CUDA_SUCCESS);
	assert_int_not_equal(library_place(library(), 0), 0);
	assert_int_equal(n_libraries(), 2);
	unload();
}

/* While work of the session is on the GPU, it may use variables of a library that has ended. */
static void test_end_at_work(void **state)
{
	struct cubin_file file = plain_cubin();
	uint64_t address, start, size;

	(void)state;
	load(&file, sizeof(file));
	assert_true(is_own("first", &address));
	fake_switches.is_busy = true;
	send_copy_device(0, address, address + 16, 8);
	harness_serve();
	assert_non_null(harness.session->busy);
	unload();
	assert_true(arena_chunk(arena(), address, &start, &size));
	fake_switches.is_busy = false;
	assert_true(streams_poll(harness.session));
	each_part(session_parts, poll, harness.session);
	assert_false(arena_chunk(arena(), address, &start, &size));
}

static void stays_of(const void *image, size_t size, const char *want)
{
	const char *reason;
	uint64_t address;

	load(image, size);
	assert_false(is_own("first", &address));
	reason = library_immovable(harness.session);
	assert_non_null(reason);
	assert_non_null(strstr(reason, want));
	assert_int_equal(n_libraries(), 1);
	unload();
	assert_null(library_immovable(harness.session));
}

static void stays(const struct cubin_file *file, const char *want)
{
	stays_of(file, sizeof(*file), want);
}

/* To compile it once more takes long. */
static void test_long_text(void **state)
{
	static char text[(1 << 20) + 2] = ".version 7.0\n.global .u32 word;";

	(void)state;
	memset(text + strlen(text), ' ', sizeof(text) - 1 - strlen(text));
	stays_of(text, sizeof(text), "more than 1 MiB of PTX");
	assert_int_equal(fake_counts_now().linkers, 0);
}

static void test_stays(void **state)
{
	struct cubin_file file = plain_cubin();

	(void)state;
	file.of_code[0].r_info = ELF64_R_INFO(FIRST, 0x77);
	stays(&file, "unknown way");
	file = plain_cubin();
	file.sections[ZEROS].sh_size = GLOBALS_SIZE_MAX;
	stays(&file, "16 MiB");
	file = plain_cubin();
	file.sections[OF_CONSTANTS].sh_info = INITIAL;
	file.sections[OF_CONSTANTS].sh_size = sizeof(Elf64_Rela);
	file.of_constants[0] = (Elf64_Rela){.r_info = ELF64_R_INFO(0, 2)};
	stays(&file, "which the driver does not tell");
	/* The memory that was taken for nothing is given back, and further images are placed. */
	file = plain_cubin();
	load(&file, sizeof(file));
	assert_true(is_own("first", (uint64_t[1]){0}));
}

/* The driver completes the value of "second" in its own copy. */
static struct cubin_file loaded_cubin(bool is_table)
{
	struct cubin_file file = plain_cubin();

	file.sections[OF_CONSTANTS].sh_info = INITIAL;
	file.of_constants[0] = (Elf64_Rela){.r_offset = 8, .r_info = ELF64_R_INFO(0, 2)};
	file.sections[OF_CONSTANTS].sh_size = sizeof(Elf64_Rela);
	if (is_table)
		memcpy(file.names + file.symbols[SECOND].st_name, "_ZTV1a", 6);
	return file;
}

static void test_loaded(void **state)
{
	struct cubin_file file = loaded_cubin(false);
	unsigned n_copies = fake_calls.copies;
	uint64_t second;

	(void)state;
	load(&file, sizeof(file));
	assert_true(is_own("second", &second));
	assert_int_equal(fake_calls.copies, n_copies + 2);
	assert_non_null(strstr(library_immovable(harness.session), "addresses of functions"));
	unload();
	assert_null(library_immovable(harness.session));
	/* A virtual table gets its functions again in another server. */
	file = loaded_cubin(true);
	load(&file, sizeof(file));
	assert_true(is_own("_ZTV1a", &second));
	assert_null(library_immovable(harness.session));
	unload();
}

static void test_loaded_again(void **state)
{
	struct session_device *sdev = session_device_get(harness.session, 0);
	uint64_t place = 0, address, size;

	(void)state;
	assert_int_equal(
		space_take(harness.session, sdev, GLOBALS_ALIGN + (1 << 20), &place), CUDA_SUCCESS);
	for (unsigned is_table = 0; is_table < 2; is_table++) {
		struct cubin_file file = loaded_cubin(is_table);
		unsigned n_copies = fake_calls.copies;

		load(&file, sizeof(file));
		assert_true(library_keep_place(harness.session, library(), 0, place));
		assert_int_equal(send_library_global(LIBRARY, 0, "first", &address, &size),
			is_table ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(fake_calls.copies, n_copies + 1);
		unload();
	}
}

/* A session that is made again: neither new memory, nor initial values. */
static void test_kept(void **state)
{
	struct session_device *sdev = session_device_get(harness.session, 0);
	struct cubin_file file = plain_cubin();
	uint64_t place = 0, first;
	unsigned n_copies;

	(void)state;
	assert_int_equal(
		space_take(harness.session, sdev, GLOBALS_ALIGN + (1 << 20), &place), CUDA_SUCCESS);
	load(&file, sizeof(file));
	assert_true(library_keep_place(harness.session, library(), 0, place));
	assert_int_equal(library_place(library(), 0), place);
	n_copies = fake_calls.copies;
	assert_true(is_own("first", &first));
	assert_int_equal(first, place + FIRST_OFFSET);
	assert_int_equal(fake_calls.copies, n_copies);
	unload();
	/* Without a use. */
	load(&file, sizeof(file));
	assert_true(library_keep_place(harness.session, library(), 0, place));
	unload();
}

/* Without variables in an image, nothing is loaded again. */
static void test_none(void **state)
{
	struct cubin_file file = plain_cubin();
	uint64_t address;

	(void)state;
	file.sections[INITIAL].sh_size = file.sections[ZEROS].sh_size = 0;
	load(&file, sizeof(file));
	assert_false(is_own("first", &address));
	assert_null(library_immovable(harness.session));
	assert_int_equal(n_libraries(), 1);
}

/* Linked code that stores the address of a function, and has no variables. */
static void test_functions(void **state)
{
	struct cubin_file file = plain_cubin();
	uint64_t address;

	(void)state;
	file.sections[INITIAL].sh_size = file.sections[ZEROS].sh_size = 0;
	for (unsigned takes = 0; takes < 2; takes++) {
		file.symbols[SECOND].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
		file.symbols[SECOND].st_shndx = CODE;
		file.of_code[0].r_addend = file.of_code[1].r_addend = takes ? 0 : 16;
		load(&file, sizeof(file));
		atomic_store(&harness.session->is_moving, true);
		/* Before its first use, nothing has run. */
		assert_null(library_stays_with(harness.session, library()));
		assert_false(is_own("a constant", &address));
		if (takes)
			assert_string_equal(
				library_stays_with(harness.session, library()), KEEPS_FUNCTIONS);
		else
			assert_null(library_stays_with(harness.session, library()));
		assert_int_equal(library_immovable(harness.session) != NULL, takes);
		unload();
		assert_null(library_immovable(harness.session));
	}
}

static void check_unread(const struct cubin_file *file, const char *before, const char *moving)
{
	uint64_t address;

	load_unplaced(file, sizeof(*file));
	assert_false(is_own("a constant", &address));
	atomic_store(&harness.session->is_moving, false);
	assert_string_equal(library_stays_with(harness.session, library()), before);
	atomic_store(&harness.session->is_moving, true);
	if (moving)
		assert_string_equal(library_stays_with(harness.session, library()), moving);
	else
		assert_null(library_stays_with(harness.session, library()));
	unload();
	assert_null(library_immovable(harness.session));
}

/* Where no variables are placed, nobody reads the code before its session is about to move. */
static void test_unread(void **state)
{
	static const char may[] = "it may have code whose variables the driver has placed";
	struct cubin_file file = plain_cubin();

	(void)state;
	check_unread(&file, may, "it has code whose variables the driver has placed");
	memcpy(file.names + file.symbols[SECOND].st_name, "malloc", 7);
	check_unread(&file, may, "its kernels may have memory of the device heap");
	file = plain_cubin();
	file.sections[INITIAL].sh_size = file.sections[ZEROS].sh_size = 0;
	check_unread(&file, may, NULL);
}

/* Large images are searched, too, when their session is about to move. */
static void test_large_heap(void **state)
{
	static char text[(5 << 20) + 1] = ".version 7.0\n";
	uint64_t address;

	(void)state;
	memset(text + strlen(text), ' ', sizeof(text) - 1 - strlen(text));
	memcpy(text + sizeof(text) - 8, "malloc ", 8);
	load_unplaced(text, sizeof(text));
	assert_false(is_own("a constant", &address));
	atomic_store(&harness.session->is_moving, true);
	assert_string_equal(library_stays_with(harness.session, library()),
		"its kernels may have memory of the device heap");
	unload();
}

/* What another server has placed stays there. */
static void test_kept_unplaced(void **state)
{
	struct session_device *sdev = session_device_get(harness.session, 0);
	struct cubin_file file = plain_cubin();
	uint64_t place = 0, first;

	(void)state;
	assert_int_equal(
		space_take(harness.session, sdev, GLOBALS_ALIGN + (1 << 20), &place), CUDA_SUCCESS);
	load_unplaced(&file, sizeof(file));
	assert_true(library_keep_place(harness.session, library(), 0, place));
	assert_true(is_own("first", &first));
	assert_int_equal(first, place + FIRST_OFFSET);
	unload();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_placed),
		TEST(test_kernel_first),
		TEST(test_end_at_work),
		TEST(test_loaded),
		TEST(test_loaded_again),
		TEST(test_stays),
		TEST(test_long_text),
		TEST(test_kept),
		TEST(test_none),
		TEST(test_functions),
		TEST(test_unread),
		TEST(test_large_heap),
		TEST(test_kept_unplaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
