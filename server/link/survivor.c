/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Survivors of faults.
 *
 * Invariant: a client counts as a survivor only if all facts about it are known.
 */

#include "survivor.h"

#include "server/session/fault.h"

enum survivor survivor_of(CUresult fault, const struct survivor_facts *facts)
{
	if (result_is_of_memory(fault))
		return SURVIVOR_NO_MEMORY;
	if (facts->had_work)
		return SURVIVOR_HAD_WORK;
	return facts->has_address ? SURVIVOR_HAS_ADDRESS : SURVIVOR_YES;
}

bool survivor_needs_address(CUresult fault)
{
	return fault == CUDA_ERROR_ILLEGAL_ADDRESS || fault == CUDA_ERROR_INVALID_ADDRESS_SPACE ||
	       fault == CUDA_ERROR_LAUNCH_FAILED;
}

const char *survivor_text(enum survivor survivor)
{
	static const char *const texts[SURVIVORS] = {
		[SURVIVOR_YES] = "had no work on the GPU",
		[SURVIVOR_HAD_WORK] = "had work on the GPU",
		[SURVIVOR_HAS_ADDRESS] = "has the address of the fault in its memory",
		[SURVIVOR_NO_MEMORY] = "may have lost memory by the fault",
	};

	return texts[survivor];
}
