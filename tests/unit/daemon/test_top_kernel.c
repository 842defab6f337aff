/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The function's own name in a demangled name.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/top/top_kernel.h"

static const struct {
	const char *demangled, *name;
} rows[] = {
	{"", ""},
	{"-", "-"},
	{"(graph)", "(graph)"},
	{"sgemm_128x64", "sgemm_128x64"},
	{"scale(float*, int)", "scale"},
	{"n::m::scale(float*)", "scale"},
	{"void scale<float>(float*)", "scale"},
	{"void n::scale<n::pair<int, (unsigned)3>, 4>(n::pair<int, 3>*)", "scale"},
	{"void n::(anonymous namespace)::scale<int>(int)", "scale"},
	{"(anonymous namespace)::scale(int)", "scale"},
	{"void n::buffer<int>::fill<4>(int)", "fill"},
	{"std::enable_if<true, void>::type n::scale<int>(int)", "scale"},
	{"n::scale(int) [clone .part.0]", "scale"},
	{"n::operator<", "operator"},
	/* No names of functions. */
	{"a::", "a::"},
	{"a ", "a "},
	{"<", "<"},
	{"a<", "a"},
	{"a<b<c", "a"},
	{">)a", ">)a"},
	{"::", "::"},
};

static void test_rows(_unused_ void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct top_kernel_name name = top_kernel_name(rows[i].demangled);

		assert_int_equal(name.size, strlen(rows[i].name));
		assert_memory_equal(name.text, rows[i].name, name.size);
	}
}

/* Every text of six characters that mean something: the name is a part of it, and not empty. */
static void test_every_text(_unused_ void **state)
{
	static const char characters[] = "a<>(): ";
	const unsigned n = sizeof(characters) - 1, n_texts = n * n * n * n * n * n;
	char text[7] = "";

	for (unsigned i = 0; i < n_texts; i++) {
		struct top_kernel_name name;

		for (unsigned j = 0, rest = i; j < 6; j++, rest /= n)
			text[j] = characters[rest % n];
		name = top_kernel_name(text);
		assert_true(name.size > 0 && name.text >= text);
		assert_true(name.text + name.size <= text + 6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_every_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
