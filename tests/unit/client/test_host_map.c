/* SPDX-License-Identifier: Apache-2.0 */

/* Chunks of a region of pinned memory: mapped as long as an allocation is in them. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "layout.h"
#include "shm.h"
#include "client/util/host_map.h"

#define N_PAGES 16u
#define SIZE (N_PAGES * HOST_PAGE)
/* Each test has a region of its own, as regions stay. */
#define BASE(n) (HOST_SPACE + (n)*VA_WINDOW)

static uint8_t *bytes(uint64_t address)
{
	return (uint8_t *)(uintptr_t)address;
}

/* The file of a region, with its number in each page. */
static int region_file(uint8_t first)
{
	void __shm *map;
	int fd;

	assert_int_equal(shm_create("region", SIZE, SHM_THEIRS, &fd, &map), 0);
	for (unsigned i = 0; i < N_PAGES; i++)
		memset((uint8_t *)shm_raw(map) + i * HOST_PAGE, first + (int)i, 64);
	shm_unmap(map, SIZE);
	return fd;
}

/* Whether this process has memory there, and which. */
static int byte_at(uint64_t address)
{
	unsigned char present;

	return mincore(bytes(address), 4096, &present) == 0 ? *bytes(address) : -1;
}

static void test_chunks(void **state)
{
	const uint64_t base = BASE(1), third = base + 2 * HOST_PAGE;

	(void)state;
	assert_int_equal(host_map_add(base, SIZE, region_file(10)), 0);
	assert_int_equal(byte_at(base), -1);
	assert_int_equal(host_map_use(third, 9 * HOST_PAGE), 1);
	assert_int_equal(byte_at(third - 4096), -1);
	assert_int_equal(byte_at(third), 12);
	assert_int_equal(byte_at(third + 8 * HOST_PAGE), 20);
	assert_int_equal(byte_at(third + 9 * HOST_PAGE), -1);
	/* A chunk that two allocations share. */
	assert_int_equal(host_map_use(base, HOST_PAGE), 1);
	assert_int_equal(host_map_use(base, HOST_PAGE), 0);
	*bytes(base + 100) = 77;
	host_map_unuse(base + 512);
	assert_int_equal(byte_at(base), 10);
	host_map_unuse(third);
	assert_int_equal(byte_at(third), -1);
	assert_int_equal(byte_at(third + 8 * HOST_PAGE), -1);
	host_map_unuse(base);
	host_map_unuse(base); /* not in use */
	assert_int_equal(host_map_use(base, 9 * HOST_PAGE), 1);
	assert_int_equal(*bytes(base + 100), 77);
	host_map_unuse(base);
	assert_int_equal(byte_at(base), -1);
}

/* Small chunks stay mapped, 16 MiB in all, unless another chunk needs the addresses. */
static void test_idle(void **state)
{
	const uint64_t base = BASE(11);

	(void)state;
	assert_int_equal(host_map_add(base, SIZE, region_file(100)), 0);
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(host_map_use(base + i * HOST_PAGE, HOST_PAGE), 1);
	for (unsigned i = 0; i < 9; i++)
		host_map_unuse(base + i * HOST_PAGE);
	assert_int_equal(byte_at(base), -1);
	for (unsigned i = 1; i < 9; i++)
		assert_int_equal(byte_at(base + i * HOST_PAGE), 100 + (int)i);
	assert_int_equal(host_map_use(base + HOST_PAGE, HOST_PAGE), 0);
	assert_int_equal(host_map_use(base + 2 * HOST_PAGE, 3 * HOST_PAGE), 1);
	assert_int_equal(byte_at(base + 4 * HOST_PAGE), 104);
	assert_int_equal(byte_at(base + 5 * HOST_PAGE), 105);
	host_map_unuse(base + HOST_PAGE);
	host_map_unuse(base + 2 * HOST_PAGE);
	/* 16 MiB at once: nothing else stays. */
	assert_int_equal(host_map_use(base + 8 * HOST_PAGE, 8 * HOST_PAGE), 1);
	host_map_unuse(base + 8 * HOST_PAGE);
	assert_int_equal(byte_at(base + HOST_PAGE), -1);
	assert_int_equal(byte_at(base + 5 * HOST_PAGE), -1);
	assert_int_equal(byte_at(base + 15 * HOST_PAGE), 115);
	assert_int_equal(host_map_use(base + 9 * HOST_PAGE, 7 * HOST_PAGE), 1);
	assert_int_equal(byte_at(base + 8 * HOST_PAGE), -1);
	assert_int_equal(byte_at(base + 9 * HOST_PAGE), 109);
	host_map_unuse(base + 9 * HOST_PAGE);
}

/* How many mappings the kernel has among these addresses. */
static unsigned count_mappings(uint64_t start, uint64_t end)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	unsigned n = 0;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			n += from < end && start < to;
	fclose(maps);
	return n;
}

/* Chunks beside each other are one mapping: the kernel limits the number of mappings. */
static void test_neighbours(void **state)
{
	const uint64_t base = BASE(13);

	(void)state;
	assert_int_equal(host_map_add(base, SIZE, region_file(1)), 0);
	for (unsigned i = 0; i < N_PAGES; i += 2)
		assert_int_equal(host_map_use(base + i * HOST_PAGE, HOST_PAGE), 1);
	assert_int_equal(count_mappings(base, base + SIZE), N_PAGES / 2);
	for (unsigned i = 1; i < N_PAGES; i += 2)
		assert_int_equal(host_map_use(base + i * HOST_PAGE, HOST_PAGE), 1);
	assert_int_equal(count_mappings(base, base + SIZE), 1);
	for (unsigned i = 0; i < N_PAGES; i++)
		host_map_unuse(base + i * HOST_PAGE);
}

/* A reply of the server that cannot be right. */
static void test_no_region(void **state)
{
	const uint64_t base = BASE(3);

	(void)state;
	assert_int_equal(host_map_add(base, SIZE, region_file(30)), 0);
	assert_int_equal(host_map_use(base - HOST_PAGE, HOST_PAGE), -ENXIO);
	assert_int_equal(host_map_use(base + SIZE, HOST_PAGE), -ENXIO);
	assert_int_equal(host_map_use(base + SIZE - HOST_PAGE, 2 * HOST_PAGE), -ENXIO);
	assert_int_equal(host_map_use(base, UINT64_MAX - HOST_PAGE + 1), -ENXIO);
	assert_int_equal(host_map_use(base + 4096, HOST_PAGE), -ENXIO);
	assert_int_equal(host_map_use(base, 4096), -ENXIO);
	assert_int_equal(host_map_use(base, 0), -ENXIO);
	host_map_unuse(base - 1);
}

static void test_in_use(void **state)
{
	const uint64_t base = BASE(5);
	void *own = mmap(bytes(base), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_equal(own, bytes(base));
	assert_int_equal(host_map_add(base, SIZE, region_file(50)), -EEXIST);
	munmap(own, 4096);
	assert_int_equal(host_map_add(base, SIZE, region_file(50)), 0);
	own = mmap(
		bytes(base + 3 * HOST_PAGE), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_equal(own, bytes(base + 3 * HOST_PAGE));
	assert_int_equal(host_map_use(base + 2 * HOST_PAGE, 2 * HOST_PAGE), -EEXIST);
	assert_int_equal(byte_at(base + 2 * HOST_PAGE), -1);
	assert_int_equal(byte_at(base + 3 * HOST_PAGE), 0);
	munmap(own, 4096);
	assert_int_equal(host_map_use(base + 2 * HOST_PAGE, 2 * HOST_PAGE), 1);
	host_map_unuse(base + 2 * HOST_PAGE);
}

/*
 * Closes each descriptor of a region, as a program may do. Returns how many there were. Only a file
 * in memory has seals; readlink() of its name would end valgrind with a failed assertion.
 */
static unsigned close_regions(void)
{
	unsigned n = 0;

	for (int fd = 3; fd < 256; fd++) {
		if (fcntl(fd, F_GET_SEALS) < 0)
			continue;
		close(fd);
		n++;
	}
	return n;
}

/* The program closes the descriptors, and their numbers get other files of the same kind. */
static void test_closed(void **state)
{
	const uint64_t base = BASE(7);
	unsigned n;

	(void)state;
	assert_int_equal(host_map_add(base, SIZE, region_file(70)), 0);
	n = close_regions();
	assert_true(n > 0);
	assert_int_equal(host_map_use(base, HOST_PAGE), -EBADF);
	for (unsigned i = 0; i < n; i++)
		(void)region_file(90);
	assert_int_equal(host_map_use(base, HOST_PAGE), -EBADF);
	assert_int_equal(byte_at(base), -1);
	assert_int_equal(close_regions(), n);
}

static void test_bad_file(void **state)
{
	const uint64_t base = BASE(9);

	(void)state;
	assert_true(host_map_add(base, SIZE + HOST_PAGE, region_file(1)) < 0);
	assert_true(host_map_add(base, SIZE, open("/dev/null", O_RDWR | O_CLOEXEC)) < 0);
	assert_int_equal(host_map_use(base, HOST_PAGE), -ENXIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_no_region),
		cmocka_unit_test(test_in_use),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_bad_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
