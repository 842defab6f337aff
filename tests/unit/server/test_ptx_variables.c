/* SPDX-License-Identifier: Apache-2.0 */

/* The size of the variables of a PTX text, as far as the text has it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "server/module/ptx_variables.h"
#include "tests/unit/seed.h"

static const struct {
	const char *text;
	uint64_t bytes;
} cases[] = {
	{"", 0},
	{".global .u32 a;", 4},
	{".visible .global .align 8 .b8 v[4096];", 4096},
	{".version 7.0\n.target sm_75\n.address_size 64\n.weak .global .f64 d[3][5];", 120},
	{".global .v4 .f32 a[2], b, c[3];", 32 + 16 + 48},
	{".global .f16x2 h[4];", 16},
	{".global .align 16 .b128 q;", 16},
	{".global .u32 t[] = {1, 2, 3};", 12},
	{".global .u32 t[][2] = {{1, 2}, {3, 4}}; .global .u8 x;", 17},
	{".global .u64 p = generic(other);", 8},
	{".global .u64 p[2] = {generic(a), b}; .global .u8 c[0x10];", 32},
	{".extern .global .u8 a[100]; .global .u8 b[7];", 7},
	{".extern .global .u8 a[];", 0},
	{".global .attribute(.managed) .align 4 .u32 m[10]; .global .u8 b;", 1},
	{".const .u8 c[1000]; .shared .u8 s[1000];", 0},
	{"// .global .u8 a[5];\n/* .global .u8 b[5]; */ .global .u8 c[5];", 5},
	{".visible .entry k(.param .u64 .ptr .global .align 4 in)\n{ .global .u8 a[9]; ret; }\n"
	 ".global .u8 after[3];",
		12},
	{".func f() { ld.global.u32 %r1, [a+4]; { .reg .b32 %r<2>; .global .u32 b; }\n"
	 "st.global.v2.u32 [a], {%r1, %r2}; }",
		4},
	{".extern .func (.param .b32 r) f(.param .b32 x);\n.global .u16 a;", 2},
	{".file 1 \"a.cu { ( .global\"\n.global .u8 a;", 1},
	{".section .debug_str { .b8 1,2,3 }\n.global .u8 a[2];", 2},
	{".global .u8 big[18446744073709551615]; .global .u64 more[4];", UINT64_MAX},
	{".global .u8 a[", 0},
	{".global .u8 a[4", 4},
	{".global", 0},
	{"\"", 0},
	{"/*", 0},
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t bytes = ptx_variables(cases[i].text, strlen(cases[i].text), false);

		if (bytes != cases[i].bytes)
			fail_msg("%s: %llu", cases[i].text, (unsigned long long)bytes);
	}
}

/* Nothing else defines its extern variables. */
static void test_whole_program(void **state)
{
	static const char text[] =
		".extern .global .u8 a[100], b; .global .u8 c[7]; .extern .global .u8 open[];";

	(void)state;
	assert_int_equal(ptx_variables(text, strlen(text), false), 7);
	assert_int_equal(ptx_variables(text, strlen(text), true), 108);
}

/* Memory of exactly its size, for the sanitizers; and cut anywhere. */
static void test_any_bytes(void **state)
{
	static const char alphabet[] = ".global u32v[](){};,=\"/*\n8 align\xff";

	(void)state;
	srand(seed_read(1));
	for (unsigned round = 0; round < 2000; round++) {
		size_t size = (size_t)rand() % 200;
		char *text = malloc(size + 1);

		assert_non_null(text);
		for (size_t i = 0; i < size; i++)
			text[i] = alphabet[(size_t)rand() % sizeof(alphabet)];
		text = realloc(text, size > 0 ? size : 1);
		assert_non_null(text);
		(void)ptx_variables(text, size, round % 2);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_whole_program),
		cmocka_unit_test(test_any_bytes),
	};

	return cmocka_run_group_tests_name("server ptx variables", tests, NULL, NULL);
}
