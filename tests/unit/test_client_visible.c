/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA_VISIBLE_DEVICES: ordinals, UUIDs, beginnings of UUIDs, and where a list
 * stops.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../client/visible.h"

static const uint8_t uuids[3][16] = {
	{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8},
	{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 9},
	{0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0, 0, 0, 0, 0, 0, 0, 0},
};

static const struct {
	const char *value;
	const char *chosen;
} cases[] = {
	{NULL, "0 1 2 "},
	{"", ""},
	{"0", "0 "},
	{"2,0", "2 0 "},
	{" 1 , 2 ", "1 2 "},
	{"0,7,1", "0 "},
	{"0,-1,1", "0 "},
	{"-1", ""},
	{"0,0", "0 "},
	{"1x", ""},
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
};

static void test_lists(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned chosen[DEVICES_MAX], n;
		char text[64] = "";

		n = visible_parse(cases[i].value, uuids, ARRAY_SIZE(uuids), chosen);
		for (unsigned k = 0; k < n; k++)
			snprintf(
				text + strlen(text), sizeof(text) - strlen(text), "%u ", chosen[k]);
		assert_string_equal(text, cases[i].chosen);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
	};

	return cmocka_run_group_tests_name("client_visible", tests, NULL, NULL);
}
