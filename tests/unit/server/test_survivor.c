/* SPDX-License-Identifier: Apache-2.0 */

/* Which clients survive which faults (server/link/survivor.h). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base.h"
#include "server/session/fault.h"
#include "server/link/survivor.h"

static const struct row {
	const char *rule;
	CUresult fault;
	bool had_work, continues;
	enum survivor survivor;
} rows[] = {
	{"an idle client survives a bad address", CUDA_ERROR_ILLEGAL_ADDRESS, false, false,
		SURVIVOR_YES},
	{"... an assert", CUDA_ERROR_ASSERT, false, false, SURVIVOR_YES},
	{"... an illegal instruction", CUDA_ERROR_ILLEGAL_INSTRUCTION, false, false, SURVIVOR_YES},
	{"... a misaligned address", CUDA_ERROR_MISALIGNED_ADDRESS, false, false, SURVIVOR_YES},
	{"... a failed launch", CUDA_ERROR_LAUNCH_FAILED, false, false, SURVIVOR_YES},
	{"a client with work does not", CUDA_ERROR_ILLEGAL_ADDRESS, true, false, SURVIVOR_HAD_WORK},
	{"... unless it continues without", CUDA_ERROR_ILLEGAL_ADDRESS, true, true,
		SURVIVOR_WITHOUT_WORK},
	{"one that would continue loses nothing if it is idle", CUDA_ERROR_ASSERT, false, true,
		SURVIVOR_YES},
	{"an uncorrectable error of memory spares nobody", CUDA_ERROR_ECC_UNCORRECTABLE, false,
		false, SURVIVOR_NO_MEMORY},
	{"... nor one of NVLink", CUDA_ERROR_NVLINK_UNCORRECTABLE, false, true, SURVIVOR_NO_MEMORY},
	{"... nor a contained one", CUDA_ERROR_CONTAINED, true, true, SURVIVOR_NO_MEMORY},
};

static void test_row(void **state)
{
	const struct row *row = *state;

	assert_true(result_is_fault(row->fault));
	assert_int_equal(survivor_of(row->fault, row->had_work, row->continues), row->survivor);
	assert_non_null(survivor_text(row->survivor));
}

/* The others need not wait for the kernel's log. */
static void test_address(void **state)
{
	(void)state;
	assert_true(survivor_needs_address(CUDA_ERROR_ILLEGAL_ADDRESS));
	assert_true(survivor_needs_address(CUDA_ERROR_LAUNCH_FAILED));
	assert_false(survivor_needs_address(CUDA_ERROR_ASSERT));
	assert_false(survivor_needs_address(CUDA_ERROR_ILLEGAL_INSTRUCTION));
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(rows) + 1] = {
		[ARRAY_SIZE(rows)] = cmocka_unit_test(test_address)};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		tests[i] = (struct CMUnitTest){.name = rows[i].rule,
			.test_func = test_row,
			.initial_state = (void *)&rows[i]};
	return cmocka_run_group_tests_name("survivor", tests, NULL, NULL);
}
