/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pinned memory for concurrent threads, with a server of one region: no thread gets
 * memory of the region before it is added here. Regions and chunks whose addresses are in
 * use here.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "client/util/host_map.h"
#include "client/util/log.h"
#include "client/util/mapping.h"
#include "client/context/context.h"
#include "client/memory/host.h"
#include "send.h"

#define PAGE 4096ull
#define REGION (16 * PAGE)

struct server_link server = {.reading = LOCK_INIT(READING)};

static struct page page;
static struct device gpu;
static struct context context = {.device = &gpu};
static uint32_t n_regions, n_allocs, n_asked; /* atomic: the server's numbers */
static bool is_added;                         /* to the regions of this process */
static unsigned n_refused;                    /* regions whose addresses are in use */
static int chunk_error;                       /* of the next chunks to map, ... */
static unsigned n_chunks_refused;             /* ... so many */
static unsigned n_used, n_freed, n_populated;
static pthread_t second;
static bool has_second;

CUresult server_link_fault(const struct server_link *link, uint32_t fault)
{
	(void)link;
	return (CUresult)fault;
}

CUresult memory_add(struct memory_range *range)
{
	(void)range;
	return CUDA_SUCCESS;
}

static uint64_t region; /* the last one's address */

static void *ask(void *ret_result)
{
	struct memory_range range = {.size = 1, .kind = MEMORY_PINNED, .context = &context};

	*(CUresult *)ret_result = host_new(&range);
	return NULL;
}

/* The server has the region, the client not yet: meanwhile another thread tries. */
static CUresult second_result;

static void let_try(void)
{
	const struct timespec sleep_time = {.tv_nsec = 1000000};
	uint32_t n = __atomic_load_n(&n_asked, __ATOMIC_ACQUIRE);

	has_second = pthread_create(&second, NULL, ask, &second_result) == 0;
	for (int i = 0; i < 200 && __atomic_load_n(&n_asked, __ATOMIC_ACQUIRE) == n; i++)
		nanosleep(&sleep_time, NULL);
}

CUresult send_host_region(uint64_t size, uint64_t after, uint32_t payer, uint64_t *ret_address,
	uint64_t *ret_region_size)
{
	assert_int_equal(payer, 0);
	assert_true(size <= REGION);
	region = MAX(after, HOST_SPACE);
	__atomic_add_fetch(&n_regions, 1, __ATOMIC_ACQ_REL);
	*ret_address = region;
	*ret_region_size = REGION;
	return CUDA_SUCCESS;
}

CUresult send_host_region_end(uint64_t address)
{
	/* No memory lies in it. */
	assert_int_equal(n_allocs, 0);
	assert_int_equal(address, region);
	return CUDA_SUCCESS;
}

int server_link_read_memory(struct server_link *link, uint64_t address, uint64_t size, int *ret_fd)
{
	assert_ptr_equal(link, &server);
	assert_int_equal(address, region);
	assert_int_equal(size, REGION);
	*ret_fd = -EBADF;
	if (!has_second)
		let_try();
	return 0;
}

int host_map_add(uint64_t base, uint64_t size, int fd)
{
	assert_int_equal(fd, -EBADF);
	assert_int_equal(base, region);
	assert_int_equal(size, REGION);
	if (n_refused > 0) {
		n_refused--;
		return -EEXIST;
	}
	is_added = true;
	return 0;
}

int host_map_use(uint64_t start, uint64_t span)
{
	assert_true(is_added);
	assert_int_equal(start % PAGE, 0);
	assert_int_equal(span, PAGE);
	if (n_chunks_refused > 0) {
		n_chunks_refused--;
		return chunk_error;
	}
	n_used++;
	return 1;
}

void host_map_unuse(uint64_t address)
{
	(void)address;
	n_used--;
}

int mapping_populate(uint64_t address, uint64_t size)
{
	assert_int_equal(address % PAGE, 0);
	assert_int_equal(size, PAGE);
	__atomic_add_fetch(&n_populated, 1, __ATOMIC_ACQ_REL);
	return 0;
}

CUresult send_host_alloc(uint64_t size, uint32_t payer, uint64_t *ret_address, uint64_t *ret_start,
	uint64_t *ret_span, uint32_t *ret_is_pinned)
{
	uint32_t n;

	assert_int_equal(payer, 0);
	__atomic_add_fetch(&n_asked, 1, __ATOMIC_ACQ_REL);
	if (__atomic_load_n(&n_regions, __ATOMIC_ACQUIRE) == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	n = __atomic_fetch_add(&n_allocs, 1, __ATOMIC_ACQ_REL);
	assert_true(size <= PAGE);
	*ret_address = *ret_start = region + n % (REGION / PAGE) * PAGE;
	*ret_span = PAGE;
	*ret_is_pinned = 0;
	return CUDA_SUCCESS;
}

CUresult send_host_pin(uint32_t device, uint64_t address)
{
	assert_int_equal(device, gpu.index);
	assert_true(is_added && __atomic_load_n(&n_populated, __ATOMIC_ACQUIRE) > 0);
	assert_int_equal(address % PAGE, 0);
	return CUDA_SUCCESS;
}

CUresult send_host_free(uint64_t address)
{
	(void)address;
	n_freed++;
	return CUDA_SUCCESS;
}

static int reset(void **state)
{
	(void)state;
	server.page = shm_at((uintptr_t)&page);
	n_regions = n_allocs = n_asked = n_refused = n_chunks_refused = 0;
	n_used = n_freed = n_populated = 0;
	is_added = has_second = false;
	second_result = CUDA_ERROR_UNKNOWN;
	return 0;
}

static void check_both(void)
{
	CUresult result = CUDA_ERROR_UNKNOWN;

	ask(&result);
	assert_true(has_second);
	pthread_join(second, NULL);
	assert_int_equal(result, CUDA_SUCCESS);
	assert_int_equal(second_result, CUDA_SUCCESS);
	assert_int_equal(n_allocs, 2);
}

static void test_first_region(void **state)
{
	(void)state;
	check_both();
	assert_int_equal(n_regions, 1);
}

/* The first addresses are in use here: no memory may have been allocated there. */
static void test_region_refused(void **state)
{
	(void)state;
	n_refused = 2;
	check_both();
	assert_int_equal(n_regions, 3);
	assert_int_equal(region, HOST_SPACE + 2 * REGION);
}

/* A sanitizer refuses all usual addresses. */
static void test_sanitizer(void **state)
{
	(void)state;
	n_refused = 8;
	check_both();
	assert_int_equal(n_regions, 9);
	assert_true(region >= HOST_SPACE_CHECKED && region < HOST_SPACE_END);
}

static CUresult ask_once(void)
{
	CUresult result = CUDA_ERROR_UNKNOWN;

	has_second = true;
	ask(&result);
	return result;
}

/* The program has memory of its own there: these chunks go back, and another one is taken. */
static void test_chunks_refused(void **state)
{
	(void)state;
	chunk_error = -EEXIST;
	n_chunks_refused = 3;
	assert_int_equal(ask_once(), CUDA_SUCCESS);
	assert_int_equal(n_regions, 1);
	assert_int_equal(n_allocs, 4);
	assert_int_equal(n_freed, 3);
	assert_int_equal(n_used, 1);
}

/* All of a region is in use, or the program has closed its descriptor: the next one is taken. */
static void test_next_region(void **state)
{
	(void)state;
	assert_int_equal(ask_once(), CUDA_SUCCESS);
	chunk_error = -EEXIST;
	n_chunks_refused = 16;
	assert_int_equal(ask_once(), CUDA_SUCCESS);
	assert_int_equal(n_regions, 2);
	assert_int_equal(n_freed, 16);
	chunk_error = -EBADF;
	n_chunks_refused = 1;
	assert_int_equal(ask_once(), CUDA_SUCCESS);
	assert_int_equal(n_regions, 3);
	assert_int_equal(n_freed, 17);
	assert_int_equal(n_used, 3);
}

/* At a limit of the program's own, no other region is of use. */
static void test_own_limit(void **state)
{
	(void)state;
	assert_int_equal(ask_once(), CUDA_SUCCESS);
	chunk_error = -EAGAIN;
	n_chunks_refused = 1;
	assert_int_equal(ask_once(), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(n_regions, 1);
	assert_int_equal(n_freed, 1);
	assert_int_equal(n_used, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_region, reset, reset),
		cmocka_unit_test_setup_teardown(test_region_refused, reset, reset),
		cmocka_unit_test_setup_teardown(test_sanitizer, reset, reset),
		cmocka_unit_test_setup_teardown(test_chunks_refused, reset, reset),
		cmocka_unit_test_setup_teardown(test_next_region, reset, reset),
		cmocka_unit_test_setup_teardown(test_own_limit, reset, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
