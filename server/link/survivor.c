/* SPDX-License-Identifier: Apache-2.0 */

/* Survivors of faults. */

#include "survivor.h"

#include "server/session/fault.h"

enum survivor survivor_of(CUresult fault, bool had_work, bool continues)
{
	if (result_is_of_memory(fault))
		return SURVIVOR_NO_MEMORY;
	if (!had_work)
		return SURVIVOR_YES;
	return continues ? SURVIVOR_WITHOUT_WORK : SURVIVOR_HAD_WORK;
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
		[SURVIVOR_WITHOUT_WORK] = "had work on the GPU, and continues without it",
		[SURVIVOR_HAD_WORK] = "had work on the GPU",
		[SURVIVOR_NO_MEMORY] = "may have lost memory by the fault",
	};

	return texts[survivor];
}
