/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A session with everything, in which each of the server's allocations fails in turn,
 * alone or with all later ones: no crash, nothing left in the driver, and no leak (which
 * builds with AddressSanitizer check).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "every_kind.h"

#define STREAM DEVICES_MAX

/* The linker's --wrap redirects calls to these functions. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);

static unsigned n_calls, fail_at; /* 0: none fails */
static bool fail_on;              /* all later ones fail too */

static bool fails(void)
{
	unsigned n = __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED);

	return fail_at && (n == fail_at || (fail_on && n > fail_at));
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
	return fails() ? NULL : __real_reallocarray(old, n, size);
}

static void pin(void)
{
	uint64_t address, size, start, span;
	uint32_t is_pinned;

	if (send_host_region(1, 0, 0, &address, &size) != CUDA_SUCCESS ||
		send_host_alloc(100, 0, &address, &start, &span, &is_pinned) != CUDA_SUCCESS)
		return;
	memset((void *)(uintptr_t)start, 0, span);
	send_host_pin(0, address);
	send_copy_device(0, address, address, 100);
	send_host_free(address);
}

/* A module with options and logs, and the names of its kernels. */
static void work_with_module(void)
{
	static const char image[] = "another image";
	static const struct jit_option options[] = {{CU_JIT_MAX_REGISTERS, 32}};
	static uint8_t logs[2 * WIRE_JIT_LOG_MAX], names[12288];
	uint32_t refusal, values[16], filled[2], length, n;

	harness_send_image(image, sizeof(image));
	if (send_library_compile(2, sizeof(image), 1, 100, 100, options, 1, &refusal, values,
		    &filled[0], &filled[1], &length, logs, sizeof(logs), &n) == CUDA_SUCCESS &&
		refusal == CUDA_SUCCESS)
		send_library_names(2, 0, &n, names, sizeof(names), &length);
}

/* Two of each, until one fails. */
static void work_with_every_kind(void)
{
	bool is_prepared = every_kind_prepare();

	assert_true(is_prepared || n_calls >= fail_at);
	for (unsigned i = 0; i < ARRAY_SIZE(every_kind) && is_prepared; i++)
		for (uint32_t n = 0; n < 2; n++)
			(void)every_kind[i].make(n);
	every_kind_end();
	fake_switches.is_busy = false;
}

static void work(void)
{
	static const char image[] = "an image";
	static const uint32_t one[3] = {1, 1, 1};
	uint64_t heap, size, granularity, limits[16], address, small;
	int32_t least, greatest, attributes[16];
	uint32_t n_sms, n_params, param_bytes, prints;
	struct param_layout params[8];
	uint8_t bytes[FAKE_PARAM_BYTES] = {0};

	if (send_device_open(
		    0, 0, 0, &n_sms, &heap, &size, &granularity, &least, &greatest, limits))
		return;
	send_memory_alloc(0, 100, &small);
	if (send_memory_alloc(0, 8 << 20, &address) == CUDA_SUCCESS)
		send_memory_free(address);
	send_stream_create(STREAM, 0, 0, 0);
	send_fill(STREAM, heap, 1, 1, 1, 0, 1);
	send_fill(0, heap, 1, 1, 1, 0, 1);
	pin();
	harness_send_image(image, sizeof(image));
	if (send_library_load(1, sizeof(image)) == CUDA_SUCCESS) {
		send_library_kernel(1, 1, "kernel", attributes);
		send_kernel_params(1, &param_bytes, &prints, params, 8, &n_params);
		send_library_global(1, 0, "variable", &address, &size);
		send_launch(STREAM, 1, one, one, 0, bytes, sizeof(bytes));
	}
	work_with_module();
	work_with_every_kind();
	send_event_create(1, 0);
	send_event_record(1, STREAM, 1);
	fake_switches.is_busy = true;
	send_seqno_write(STREAM, 2);
	send_seqno_watch(STREAM, 3);
	harness_serve();
}

/* Whether an allocation failed: otherwise the sweep is complete. */
static bool run(unsigned at, bool on)
{
	bool has_failed;

	n_calls = 0;
	fail_at = at;
	fail_on = on;
	if (harness_try_open() == 0) {
		work();
		has_failed = n_calls >= at;
		fail_at = 0;
		fake_switches.is_busy = false;
		harness_close();
		return has_failed;
	}
	fail_at = 0;
	return true;
}

static void sweep(bool on)
{
	unsigned at = 1;

	assert_true(run(UINT32_MAX, false) == false);
	while (run(at, on))
		at++;
	assert_in_range(at, 10, 1000);
}

static void test_one_fails(void **state)
{
	(void)state;
	sweep(false);
}

static void test_all_fail_from_one_on(void **state)
{
	(void)state;
	sweep(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_fails),
		cmocka_unit_test(test_all_fail_from_one_on),
	};

	return cmocka_run_group_tests_name("server allocations", tests, NULL, NULL);
}
