/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names of C++ functions, also those that a hostile client has made up.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/demangle.h"

static const struct {
	const char *name, *text;
} rows[] = {
	{"_Z5storePi", "store(int*)"},
	{"_Z6matmulPfS_S_i", "matmul(float*, float*, float*, int)"},
	{"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3"
	 "EEEEviT0_T1_",
		"void at::native::vectorized_elementwise_kernel<4, "
		"at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, "
		"at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"},
	/* ---- other names stay */
	{"store", NULL},
	{"", NULL},
	{"_Z", NULL},
	{"_Z5sto", NULL},
	{"_Z99999999999999999999store", NULL},
	{"_ZN2at6native29vectorized_elementwise_kernelILi4E", NULL},
	{"printf(\"_Z5storePi\")", NULL},
	{"_GLOBAL__I__Z5storePi", NULL},
};

static void test_names(_unused_ void **state)
{
	struct demangled demangled;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_string_equal(demangle(&demangled, rows[i].name),
			rows[i].text ? rows[i].text : rows[i].name);
}

/* Each parameter has the type of the one before it twice: the whole text has megabytes. */
static void make_explosive(char *name, size_t size)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t used = (size_t)snprintf(name, size, "_Z1f1AIiiE");

	for (size_t i = 0; 2 * i + 1 < sizeof(digits); i++)
		used += (size_t)snprintf(name + used, size - used, "1%cIS%c_S%c_E", (char)('B' + i),
			digits[2 * i], digits[2 * i]);
}

static void test_length(_unused_ void **state)
{
	char explosive[512], longest[2048] = "_Z";
	struct demangled demangled;
	const char *text;

	make_explosive(explosive, sizeof(explosive));
	text = demangle(&demangled, explosive);
	assert_ptr_equal(text, demangled.text);
	assert_int_equal(strlen(text), DEMANGLED_MAX - 1);
	assert_string_equal(text + DEMANGLED_MAX - 4, "...");

	snprintf(longest, sizeof(longest), "_Z1f%01500d", 0);
	assert_ptr_equal(demangle(&demangled, longest), longest);
	memset(longest + 2, 'P', 1000);
	longest[1002] = '\0';
	demangle(&demangled, longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
