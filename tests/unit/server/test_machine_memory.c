/* SPDX-License-Identifier: Apache-2.0 */

/* The memory of a machine and of cgroups of either version, from files of the test. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "server/util/machine_memory.h"

#define MIB ((uint64_t)1 << 20)

static char root[64];

/* With the folders above it. */
static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *end = full + strlen(root) + 1; (end = strchr(end, '/')); end++) {
		*end = '\0';
		assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
		*end = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/mps-test-memory-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put("/proc/meminfo", "MemFree: 5 kB\nMemTotal:       8388608 kB\nMemAvailable: 7 kB\n");
	return 0;
}

static int remove_root(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void test_machine(void **state)
{
	(void)state;
	assert_int_equal(machine_memory(root), 8192 * MIB);
	assert_int_equal(machine_memory_free(root), 7 << 10);
	put("/proc/meminfo", "nothing of the kind\n");
	assert_int_equal(machine_memory(root), 0);
	assert_int_equal(machine_memory_free(root), 0);
	assert_true(machine_memory("") > 100 * MIB);
	assert_true(machine_memory_free("") > 0 && machine_memory_free("") < machine_memory(""));
}

static void test_second_version(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "0::/user/one\n");
	put("/sys/fs/cgroup/user/one/memory.max", "max\n");
	assert_int_equal(machine_memory(root), 8192 * MIB);
	/* Its parent counts as well, and so does the root that a container sees. */
	put("/sys/fs/cgroup/user/memory.max", "1073741824\n");
	assert_int_equal(machine_memory(root), 1024 * MIB);
	put("/sys/fs/cgroup/user/one/memory.max", "536870912\n");
	assert_int_equal(machine_memory(root), 512 * MIB);
	put("/sys/fs/cgroup/memory.max", "268435456\n");
	assert_int_equal(machine_memory(root), 256 * MIB);
	put("/sys/fs/cgroup/memory.max", "18446744073709551615\n");
	assert_int_equal(machine_memory(root), 512 * MIB);
}

static void test_first_version(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "8:pids:/\n4:memory:/one\n3:cpu\n0::/\nnonsense\n");
	put("/sys/fs/cgroup/memory/one/memory.limit_in_bytes", "1073741824\n");
	assert_int_equal(machine_memory(root), 1024 * MIB);
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(machine_memory(root), 1024 * MIB);
	/* A container's path is different there. */
	put("/proc/self/cgroup", "4:memory:/where/nobody/sees\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
	assert_int_equal(machine_memory(root), 2048 * MIB);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
	const struct CMUnitTest tests[] = {
		TEST(test_machine),
		TEST(test_second_version),
		TEST(test_first_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
