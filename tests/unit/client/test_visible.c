/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA_VISIBLE_DEVICES: ordinals, UUIDs, beginnings of UUIDs, and where a list
 * stops. CUDA_DEVICE_ORDER: the order of ordinals.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "client/context/visible.h"

static const struct visible_gpu gpus[4] = {
	{
		.uuid = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8},
		.part_uuid = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7,
			8},
		.pci = {0, 9, 0},
		.index = 0,
	},
	{
		.uuid = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 9},
		.part_uuid = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7,
			9},
		.pci = {0, 2, 1},
		.index = 1,
	},
	{
		.uuid = {0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89},
		.part_uuid = {0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89},
		.pci = {0, 2, 0},
		.index = 2,
	},
	/* A part of a GPU. */
	{
		.uuid = {0xcc},
		.part_uuid = {0xdd},
		.pci = {-1, 0, 0},
		.index = 3,
	},
};

static const struct {
	const char *value;
	const char *chosen;
} cases[] = {
	{NULL, "0 1 2 3 "},
	{"", ""},
	{"0", "0 "},
	{"2,0", "2 0 "},
	{" 1 , 2 ", "1 2 "},
	{"0,7,1", "0 "},
	{"0,-1,1", "0 "},
	{"-1", ""},
	{"0,0", "twice"},
	{"0,2,0", "twice"},
	{"0,7,0", "0 "},
	{"2,GPU-abcdef01", "twice"},
	{"1x", "1 "},
	{"1gpu2,2ampere", "1 2 "},
	{"+1,2", "1 2 "},
	{"+", ""},
	{" +1,2", "1 2 "},
	{" GPU-a", ""},
	{"0, GPU-a", "0 "},
	{"x1", ""},
	{" ", ""},
	{"99999999999999999999", ""},
	{"0,", "0 "},
	{",0", ""},
	{"none", ""},
	{"GPU-abcdef01-2345-6789-0000-000000000000", "2 "},
	{"GPU-ABCDEF01-2345", "2 "},
	{"GPU-a", "2 "},
	{"GPU-1", ""},
	{"GPU-12345678-9abc-def0-0102-030405060709,GPU-a,0", "1 2 0 "},
	{"GPU-abcdef01-2345-6789-0000-0000000000001", ""},
	{"GPU-", ""},
	{"GPU-xyz,0", ""},
	{"MIG-1", ""},
	{"MIG-abcdef01", ""},
	{"MIG-dd", "3 "},
	{"MIG-dd000000-0000-0000-0000-000000000000,0", "3 0 "},
	{"MIG-cc", ""},
	{"MIG-GPU-cc000000-0000-0000-0000-000000000000/1/0", ""},
	{"GPU-cc", "3 "},
	{"GPU-dd", ""},
};

static void test_lists(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned chosen[DEVICES_MAX], n;
		char text[64] = "";

		n = visible_parse(cases[i].value, gpus, ARRAY_SIZE(gpus), chosen);
		if (n == VISIBLE_TWICE)
			snprintf(text, sizeof(text), "twice");
		for (unsigned k = 0; n != VISIBLE_TWICE && k < n; k++)
			snprintf(
				text + strlen(text), sizeof(text) - strlen(text), "%u ", chosen[k]);
		assert_string_equal(text, cases[i].chosen);
	}
}

static void check_order(const char *value, const unsigned expected[4])
{
	struct visible_gpu sorted[4];

	memcpy(sorted, gpus, sizeof(sorted));
	visible_order(value, sorted, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(sorted[i].index, expected[i]);
}

static void test_order(void **state)
{
	static const unsigned as_it_is[] = {0, 1, 2, 3}, by_place[] = {3, 2, 1, 0};

	(void)state;
	check_order(NULL, as_it_is);
	check_order("", as_it_is);
	check_order("FASTEST_FIRST", as_it_is);
	check_order("PCI_BUS_ID", by_place);
	visible_order("PCI_BUS_ID", NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests_name("client_visible", tests, NULL, NULL);
}
