/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SURVIVOR_H
#define SURVIVOR_H

/*
 * Which clients a GPU fault need not end: nothing of theirs was on the GPU, or they have asked to
 * go on without that, and no memory of theirs was lost. server/rescue.h lets them go on, unless it
 * finds another reason.
 *
 * Any thread.
 */

#include <stdbool.h>

#include "cuda_api.h"

enum survivor {
	SURVIVOR_YES,
	SURVIVOR_WITHOUT_WORK, /* MPS_ON_FAULT=continue */
	SURVIVOR_HAD_WORK,
	SURVIVOR_NO_MEMORY, /* the bytes that were lost may be of any client (ECC, NVLink) */
	SURVIVORS,
};

/* `had_work': by its timelines, or it was launching (launching.h), when the fault was noted. */
enum survivor survivor_of(CUresult fault, bool had_work, bool continues);

/* Whether the kernel's log may have an address for the fault, which decides about survivors. */
bool survivor_needs_address(CUresult fault);

/* As the end of a sentence about the client. */
const char *survivor_text(enum survivor survivor);

#endif
