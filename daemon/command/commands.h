/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMANDS_H
#define COMMANDS_H

/*
 * The table of commands in command.c: arguments, help and dispatch; and the commands themselves,
 * one file for each family. Each command replies; the table has checked the number of tokens.
 * Loop thread.
 */

#include "daemon/text/tokenize.h"

struct conn;

/*
 * Runs a line, which it modifies. On return the reply is queued, or the
 * command is pending (pending.h).
 */
void command_run(struct conn *conn, char *line);

/* Whether it is a module of protocol 3, after which a verb follows. */
bool commands_have_module(const char *word);

/*
 * Whether the exit status is 0 even if the command fails: it is one of protocol 2. With `protocol'
 * 2, an unknown word is, too.
 */
bool commands_end_well(const char *word, unsigned protocol);

/* Prints all commands to standard output. */
void commands_print(void);

/* command_server.c */
void command_get_server_list(struct conn *conn, const struct tokens *tokens);
void command_get_server_status(struct conn *conn, const struct tokens *tokens);
void command_start_server(struct conn *conn, const struct tokens *tokens);
void command_restart_server(struct conn *conn, const struct tokens *tokens);
void command_shutdown_server(struct conn *conn, const struct tokens *tokens);
void command_quit(struct conn *conn, const struct tokens *tokens);
void command_log_level(struct conn *conn, const struct tokens *tokens);

/* command_client.c */
void command_get_client_list(struct conn *conn, const struct tokens *tokens);
void command_get_device_client_list(struct conn *conn, const struct tokens *tokens);
void command_ps(struct conn *conn, const struct tokens *tokens);

/* command_stats.c */
void command_stats(struct conn *conn, const struct tokens *tokens);
void command_metrics(struct conn *conn, const struct tokens *tokens);

/* command_fault.c */
void command_get_last_fault(struct conn *conn, const struct tokens *tokens);

/* command_terminate.c */
void command_terminate_client(struct conn *conn, const struct tokens *tokens);

/* command_suspend.c */
void command_suspend_client(struct conn *conn, const struct tokens *tokens);
void command_resume_client(struct conn *conn, const struct tokens *tokens);

/* command_trace.c */
void command_trace(struct conn *conn, const struct tokens *tokens);

/* command_device.c */
void command_device_query(struct conn *conn, const struct tokens *tokens);

/* command_partition.c */
void command_lspart(struct conn *conn, const struct tokens *tokens);
void command_sm_partition(struct conn *conn, const struct tokens *tokens);

/* command_limit.c */
void command_set_percentage(struct conn *conn, const struct tokens *tokens);
void command_get_percentage(struct conn *conn, const struct tokens *tokens);
void command_set_memory(struct conn *conn, const struct tokens *tokens);
void command_get_memory(struct conn *conn, const struct tokens *tokens);
void command_set_priority(struct conn *conn, const struct tokens *tokens);
void command_get_priority(struct conn *conn, const struct tokens *tokens);

/* reload.c */
void command_reload(struct conn *conn, const struct tokens *tokens);

/* command_group.c */
void command_group(struct conn *conn, const struct tokens *tokens);

#endif
