/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_FAULT_H
#define COMMAND_FAULT_H

struct peer;
struct words;

/* get_last_fault [N] [--json] */
void command_get_last_fault(struct peer *peer, const struct words *words);

#endif
