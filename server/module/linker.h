/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINKER_H
#define LINKER_H

/*
 * The driver's linkers of a session: inputs go in, a cubin comes out. The
 * session's worker only.
 */

#include <stdbool.h>

struct session;

/* Ends all of them. `is_lost': the driver answers no more. */
void linkers_free(struct session *session, bool is_lost);

#endif
