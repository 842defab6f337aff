/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pinned memory for concurrent threads, with a server of one region: no thread gets
 * memory of the region before it is mapped here.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "client.h"
#include "client/device/context.h"
#include "client/memory/host.h"
#include "client/util/log.h"
#include "client/memory/pool.h"
#include "client/memory/registered.h"
#include "send.h"

#define PAGE 4096ull
#define REGION (16 * PAGE)

struct server_link server = {.reading = PTHREAD_MUTEX_INITIALIZER};

static struct page page;
static struct device gpu;
static struct context context = {.device = &gpu};
static uint32_t n_regions, n_allocs, n_asked; /* atomic: the server's numbers */
static bool is_mapped;                        /* in this process */
static unsigned n_refused;                    /* maps that find the addresses in use */
static pthread_t second;
static bool has_second;

CUresult server_link_fault(const struct server_link *link, uint32_t fault)
{
	(void)link;
	return (CUresult)fault;
}

_Thread_local struct context *context_current;

CUresult memory_add(struct memory_range *range)
{
	(void)range;
	return CUDA_SUCCESS;
}

CUresult memory_free(uint64_t address, unsigned kinds)
{
	(void)address;
	(void)kinds;
	return CUDA_SUCCESS;
}

bool memory_find(uint64_t address, struct memory_range *ret_range)
{
	(void)address;
	(void)ret_range;
	return false;
}

bool registered_find(uint64_t address, struct memory_range *ret_range)
{
	return memory_find(address, ret_range);
}

uint64_t registered_translate(uint64_t address, uint64_t size)
{
	(void)size;
	return address;
}

CUresult registered_reach(uint64_t address)
{
	(void)address;
	return CUDA_ERROR_NOT_SUPPORTED;
}

static uint64_t region_address(uint32_t n)
{
	return HOST_SPACE + (uint64_t)n * REGION;
}

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

bool pools_make_room(const struct device *device)
{
	(void)device;
	return false;
}

CUresult send_host_region(uint64_t size, uint64_t after, uint32_t payer, uint64_t *ret_address,
	uint64_t *ret_region_size)
{
	assert_int_equal(payer, 0);
	assert_true(size <= REGION);
	*ret_address = region_address(__atomic_add_fetch(&n_regions, 1, __ATOMIC_ACQ_REL));
	*ret_region_size = REGION;
	assert_true(*ret_address >= after);
	return CUDA_SUCCESS;
}

CUresult send_host_region_end(uint64_t address)
{
	/* No memory lies in it. */
	assert_int_equal(n_allocs, 0);
	assert_int_equal(address, region_address(n_regions));
	return CUDA_SUCCESS;
}

int server_link_read_memory(struct server_link *link, uint64_t address, uint64_t size, int *ret_fd)
{
	assert_ptr_equal(link, &server);
	assert_int_equal(address, region_address(n_regions));
	assert_int_equal(size, REGION);
	*ret_fd = -EBADF;
	if (!has_second)
		let_try();
	return 0;
}

int shm_map_at(int fd, uint64_t address, size_t size)
{
	void *wanted = (void *)(uintptr_t)address;

	assert_int_equal(fd, -EBADF);
	if (n_refused > 0) {
		n_refused--;
		return -EEXIST;
	}
	is_mapped = mmap(wanted, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == wanted;
	return is_mapped ? 0 : -ENOMEM;
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
	assert_true(size <= PAGE && n < REGION / PAGE);
	*ret_address = *ret_start = region_address(n_regions) + n * PAGE;
	*ret_span = PAGE;
	*ret_is_pinned = 0;
	return CUDA_SUCCESS;
}

CUresult send_host_pin(uint32_t device, uint64_t address)
{
	assert_int_equal(device, gpu.index);
	assert_true(is_mapped);
	*(volatile uint8_t *)(uintptr_t)address = 1;
	return CUDA_SUCCESS;
}

CUresult send_host_free(uint64_t address)
{
	(void)address;
	return CUDA_SUCCESS;
}

static int reset(void **state)
{
	(void)state;
	server.page = shm_at((uintptr_t)&page);
	if (is_mapped)
		munmap((void *)(uintptr_t)region_address(n_regions), REGION);
	n_regions = n_allocs = n_asked = n_refused = 0;
	is_mapped = has_second = false;
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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_region, reset, reset),
		cmocka_unit_test_setup_teardown(test_region_refused, reset, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
