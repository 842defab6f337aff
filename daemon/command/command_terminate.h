/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_TERMINATE_H
#define COMMAND_TERMINATE_H

struct conn;
struct tokens;

/* terminate_client SERVER_PID CLIENT_PID */
void command_terminate_client(struct conn *conn, const struct tokens *tokens);

#endif
