/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SURVIVOR_H
#define SURVIVOR_H

/*
 * Which clients a GPU fault need not cost anything: nothing of theirs was on the GPU, and the
 * fault cannot have changed their memory. server/rescue.h lets them go on.
 *
 * Any thread.
 */

#include <stdbool.h>

#include "cuda_api.h"

/* What is known of a client when a fault was noted. */
struct survivor_facts {
	bool had_work;    /* by its timelines, or it was launching (launching.h) */
	bool has_address; /* the address of the fault lies in its VA windows */
};

enum survivor {
	SURVIVOR_YES,
	SURVIVOR_HAD_WORK,
	SURVIVOR_HAS_ADDRESS, /* its memory may have been written */
	SURVIVOR_NO_MEMORY,   /* the bytes that were lost may be of any client (ECC, NVLink) */
	SURVIVORS,
};

enum survivor survivor_of(CUresult fault, const struct survivor_facts *facts);

/* Whether the kernel's log may have an address for the fault, which decides about survivors. */
bool survivor_needs_address(CUresult fault);

/* As the end of a sentence about the client. */
const char *survivor_text(enum survivor survivor);

#endif
