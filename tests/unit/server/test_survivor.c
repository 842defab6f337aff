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
	struct survivor_facts facts;
	enum survivor survivor;
} rows[] = {
	{"an idle client survives a bad address", CUDA_ERROR_ILLEGAL_ADDRESS, {0}, SURVIVOR_YES},
	{"... an assert", CUDA_ERROR_ASSERT, {0}, SURVIVOR_YES},
	{"... an illegal instruction", CUDA_ERROR_ILLEGAL_INSTRUCTION, {0}, SURVIVOR_YES},
	{"... a misaligned address", CUDA_ERROR_MISALIGNED_ADDRESS, {0}, SURVIVOR_YES},
	{"... a failed launch", CUDA_ERROR_LAUNCH_FAILED, {0}, SURVIVOR_YES},
	{"a client with work does not", CUDA_ERROR_ILLEGAL_ADDRESS, {.had_work = true},
		SURVIVOR_HAD_WORK},
	{"nor an idle one in whose memory the address lies", CUDA_ERROR_ILLEGAL_ADDRESS,
		{.has_address = true}, SURVIVOR_HAS_ADDRESS},
	{"work is the reason that is said", CUDA_ERROR_ILLEGAL_ADDRESS,
		{.had_work = true, .has_address = true}, SURVIVOR_HAD_WORK},
	{"an uncorrectable error of memory spares nobody", CUDA_ERROR_ECC_UNCORRECTABLE, {0},
		SURVIVOR_NO_MEMORY},
	{"... nor one of NVLink", CUDA_ERROR_NVLINK_UNCORRECTABLE, {0}, SURVIVOR_NO_MEMORY},
	{"... nor a contained one", CUDA_ERROR_CONTAINED, {.had_work = true}, SURVIVOR_NO_MEMORY},
};

static void test_row(void **state)
{
	const struct row *row = *state;

	assert_true(result_is_fault(row->fault));
	assert_int_equal(survivor_of(row->fault, &row->facts), row->survivor);
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
