/* SPDX-License-Identifier: Apache-2.0 */

/* CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: which value holds, and what is reported. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "client/util/log.h"
#include "client/context/memory_limit.h"

#define MIB (1ull << 20)
#define NONE UINT64_MAX

static const struct visible_gpu gpus[3] = {
	{{0x12, 0x34, 0x56, 0x78}, {0x12, 0x34, 0x56, 0x78}, {0, 6, 0}, 2},
	{{0x12, 0x34, 0xab}, {0xaa, 0xbb}, {0, 7, 0}, 0},
	{{0xfe}, {0xfe}, {1, 7, 0x1f}, 1},
};

static unsigned n_lines;
static char last_line[512];

void log_line(enum log_level level, const char *format, ...)
{
	va_list arguments;

	assert_int_equal(level, LOG_WARN);
	va_start(arguments, format);
	vsnprintf(last_line, sizeof(last_line), format, arguments);
	va_end(arguments);
	n_lines++;
}

static void test_entries(void **state)
{
	static const struct {
		const char *value;
		uint64_t limits[3];
		unsigned n_reported;
		const char *reported;
	} cases[] = {
		{NULL, {NONE, NONE, NONE}, 0, ""},
		{"", {NONE, NONE, NONE}, 0, ""},
		{"0=1G", {1024 * MIB, NONE, NONE}, 0, ""},
		{"0=1G,1=512MB", {1024 * MIB, 512 * MIB, NONE}, 0, ""},
		{" 1 = 512 MB , 2=64k,", {NONE, 512 * MIB, 64 << 10}, 0, ""},
		{"0=2M,0=1M,0=3M", {MIB, NONE, NONE}, 0, ""},
		{"GPU-12345678=1M", {MIB, NONE, NONE}, 0, ""},
		{"GPU-1234AB00-0000-0000-0000-000000000000=1M", {NONE, MIB, NONE}, 0, ""},
		{"GPU-f=1M,MIG-aa=2M", {NONE, 2 * MIB, MIB}, 0, ""},
		{"0000:07:00.0=1M,1:7:1f=2M", {NONE, MIB, 2 * MIB}, 0, ""},
		{"GPU-1234=1M,2=1M", {NONE, NONE, MIB}, 1, "\"GPU-1234=1M\" is ignored"},
		{"GPU-=1M", {NONE, NONE, NONE}, 1, "a unique beginning of its UUID"},
		{"3=1G,1=1M", {NONE, MIB, NONE}, 1, "\"3=1G\" is ignored: this process sees no"},
		{"99999999999999999999=1G", {NONE, NONE, NONE}, 1, "(it sees 3)"},
		{"1gpu=1G,-1=1G,=1G", {NONE, NONE, NONE}, 3, "\"=1G\" is ignored"},
		{"0=1T,1=1M", {NONE, MIB, NONE}, 1,
			"\"0=1T\" is ignored: the size must be a whole"},
		{"0=0M,0=1.5G,0=,0=5", {NONE, NONE, NONE}, 4, "\"0=5\""},
		{"1G,2=1M", {NONE, NONE, MIB}, 1, "\"1G\" is ignored: an entry must be GPU=SIZE"},
		{"0:8:0=1G", {NONE, NONE, NONE}, 1, "PCI ID"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t limits[DEVICES_MAX];

		n_lines = 0;
		last_line[0] = '\0';
		memory_limits_parse(cases[i].value, gpus, ARRAY_SIZE(gpus), limits);
		for (unsigned k = 0; k < ARRAY_SIZE(gpus); k++)
			if (limits[k] != cases[i].limits[k])
				fail_msg("%s: GPU %u has %llu", cases[i].value, k,
					(unsigned long long)limits[k]);
		assert_int_equal(n_lines, cases[i].n_reported);
		assert_non_null(strstr(last_line, cases[i].reported));
	}
}

static void test_long_entry(void **state)
{
	char value[1024];
	uint64_t limits[DEVICES_MAX];

	(void)state;
	memset(value, '0', sizeof(value));
	memcpy(value + sizeof(value) - 10, "=1M,1=2MB", 10);
	n_lines = 0;
	memory_limits_parse(value, gpus, ARRAY_SIZE(gpus), limits);
	assert_int_equal(n_lines, 1);
	assert_int_equal(limits[0], NONE);
	assert_int_equal(limits[1], 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_long_entry),
	};

	return cmocka_run_group_tests_name("client memory limit", tests, NULL, NULL);
}
