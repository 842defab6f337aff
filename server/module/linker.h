/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINKER_H
#define LINKER_H

/*
 * The driver's linkers of a session, which make a cubin from inputs. The session's worker
 * only.
 */

#include <stdbool.h>

struct session;
struct session_part;

/* What is done for each session: see session_part.h. */
extern const struct session_part linkers_part;

#endif
