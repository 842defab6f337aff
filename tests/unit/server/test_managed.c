/* SPDX-License-Identifier: Apache-2.0 */

/* __managed__ variables from messages of a client, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "managed_cubin.h"
#include "open_session.h"

enum {
	LIBRARY = 3,
	KERNEL = 5,
};

static void load(const void *image, size_t size)
{
	harness_send_image(image, size);
	assert_int_equal(send_library_load(LIBRARY, size), CUDA_SUCCESS);
}

/* Pinned memory of the session, all zeros. */
static uint64_t alloc(uint64_t size)
{
	uint64_t region, region_size, address = 0, start, span;
	uint32_t is_pinned;

	assert_int_equal(send_host_region(size, 0, 0, &region, &region_size), CUDA_SUCCESS);
	close(harness_read_memory(region, region_size));
	assert_int_equal(
		send_host_alloc(size, 0, &address, &start, &span, &is_pinned), CUDA_SUCCESS);
	memset((void *)(uintptr_t)start, 0, span);
	assert_int_equal(send_host_pin(0, address), CUDA_SUCCESS);
	return address;
}

static CUresult find_kernel(void)
{
	int32_t attributes[16];

	return send_library_kernel(LIBRARY, KERNEL, "kernel", attributes);
}

static CUresult find_plain(void)
{
	uint64_t address, size;

	return send_library_global(LIBRARY, 0, "plain", &address, &size);
}

static void test_bind(void **state)
{
	uint64_t size = 0, address = 0, memory;

	(void)state;
	load(&whole, sizeof(whole));
	assert_int_equal(find_kernel(), CUDA_SUCCESS);
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_SUCCESS);
	assert_int_equal(size, VARIABLES_SIZE);
	assert_int_equal(fake_counts_now().libraries, 1);
	memory = alloc(size);
	assert_int_equal(send_managed_bind(LIBRARY, 0, memory), CUDA_SUCCESS);
	assert_memory_equal((void *)(uintptr_t)(memory + SECOND_AT), whole.initial + 4, 12);
	assert_int_equal(send_managed_find(LIBRARY, "second", &address, &size), CUDA_SUCCESS);
	assert_int_equal(address, memory + SECOND_AT);
	assert_int_equal(size, 12);
	assert_int_equal(
		send_managed_find(LIBRARY, "other", &address, &size), CUDA_ERROR_NOT_FOUND);
	/* Only once. */
	assert_int_equal(send_managed_bind(LIBRARY, 0, memory), CUDA_ERROR_INVALID_VALUE);
	send_library_unload(LIBRARY);
	harness_serve();
	assert_int_equal(
		send_managed_find(LIBRARY, "second", &address, &size), CUDA_ERROR_INVALID_HANDLE);
}

static void test_invalid_addresses(void **state)
{
	uint64_t size = 0, address = 0, memory = alloc(VARIABLES_SIZE);

	(void)state;
	load(&whole, sizeof(whole));
	assert_int_equal(send_managed_bind(LIBRARY, 0, memory), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_managed_measure(LIBRARY, 5, &size), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_SUCCESS);
	assert_int_equal(
		send_managed_find(LIBRARY, "second", &address, &size), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_managed_bind(LIBRARY, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_managed_bind(LIBRARY, 0, (uintptr_t)&size), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		send_managed_bind(LIBRARY, 0, memory + (1ull << 33)), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_managed_bind(LIBRARY, 0, ~0ull), CUDA_ERROR_INVALID_VALUE);
	/* The refused addresses do not prevent the valid one. */
	assert_int_equal(send_managed_bind(LIBRARY, 0, memory), CUDA_SUCCESS);
}

/* If a library was used already, its variables would change: refused. */
static void test_used(void **state)
{
	uint64_t size = 0, memory = alloc(VARIABLES_SIZE);

	(void)state;
	load(&whole, sizeof(whole));
	assert_int_equal(find_kernel(), CUDA_SUCCESS);
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_SUCCESS);
	assert_int_equal(send_kernel_set_attribute(KERNEL, 0, 8, 0), CUDA_SUCCESS);
	assert_int_equal(send_managed_bind(LIBRARY, 0, memory), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(find_plain(), CUDA_SUCCESS);
}

/* Older runtimes query all variables in a row, by one function. */
static void test_come_first(void **state)
{
	static const char text[] = ".version 7.0\n.global .attribute(.managed) .u32 word;";
	uint64_t size = 0, memory = alloc(VARIABLES_SIZE);

	(void)state;
	load(&whole, sizeof(whole));
	assert_int_equal(find_plain(), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_SUCCESS);
	assert_int_equal(send_managed_bind(LIBRARY, 0, memory), CUDA_SUCCESS);
	assert_int_equal(find_plain(), CUDA_SUCCESS);
	send_library_unload(LIBRARY);
	harness_serve();
	/* If they cannot be placed, all other variables still work. */
	load(text, sizeof(text));
	assert_int_equal(find_plain(), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(find_plain(), CUDA_SUCCESS);
}

static void test_none_in_it(void **state)
{
	static const char text[] = ".version 7.0";
	struct cubin_file file = whole;
	uint64_t size = 0;

	(void)state;
	file.symbols[FIRST].st_other = file.symbols[SECOND].st_other = 0;
	load(&file, sizeof(file));
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_ERROR_NOT_FOUND);
	send_library_unload(LIBRARY);
	harness_serve();
	/* The output of this driver's linker is not a cubin. */
	load(text, sizeof(text));
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(fake_counts_now().linkers, 0);
}

/* A cubin whose addresses cannot be written, without PTX beside it. */
static void test_refused(void **state)
{
	struct cubin_file file = whole;
	uint64_t size = 0, memory = alloc(VARIABLES_SIZE);

	(void)state;
	file.of_code[0].r_info = ELF64_R_INFO(FIRST, 0x77);
	load(&file, sizeof(file));
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_SUCCESS);
	assert_int_equal(send_managed_bind(LIBRARY, 0, memory), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(find_kernel(), CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().libraries, 1);
}

/* A client may load an image any number of times: what the server keeps of it is bounded. */
static void test_much(void **state)
{
	const size_t size = 60 << 20;
	uint8_t *bytes = calloc(1, size);
	uint64_t total = 0;
	uint32_t id;

	(void)state;
	assert_non_null(bytes);
	memcpy(bytes, &whole, sizeof(whole));
	for (id = 0; id < 2; id++) {
		harness_send_image(bytes, size);
		assert_int_equal(send_library_load(id, size), CUDA_SUCCESS);
		assert_int_equal(send_managed_measure(id, 0, &total), CUDA_SUCCESS);
	}
	harness_send_image(bytes, size);
	assert_int_equal(send_library_load(id, size), CUDA_SUCCESS);
	assert_int_equal(send_managed_measure(id, 0, &total), CUDA_ERROR_OUT_OF_MEMORY);
	free(bytes);
	close_session(state);
	/* All of it is freed. */
	assert_int_equal(open_session(state), 0);
	load(&whole, sizeof(whole));
	assert_int_equal(send_managed_measure(LIBRARY, 0, &total), CUDA_SUCCESS);
}

int main(void)
{
	/* Enough for two large ones: each is read, changed and loaded. */
	setenv("MPS_CLIENT_HOST_MIB", "512", 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_bind),
		TEST(test_invalid_addresses),
		TEST(test_used),
		TEST(test_come_first),
		TEST(test_none_in_it),
		TEST(test_refused),
		TEST(test_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
