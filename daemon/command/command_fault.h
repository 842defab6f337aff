/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_FAULT_H
#define COMMAND_FAULT_H

struct conn;
struct tokens;

/* get_last_fault [N] [--json] */
void command_get_last_fault(struct conn *conn, const struct tokens *tokens);

#endif
