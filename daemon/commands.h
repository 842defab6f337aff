/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMANDS_H
#define COMMANDS_H

/*
 * The commands themselves, one file a family, for the table in command.c. Each
 * replies; the number of words is within the table's bounds. Loop thread.
 */

#include "tokenize.h"

struct peer;

/* command_server.c */
void command_get_server_list(struct peer *peer, const struct words *words);
void command_get_server_status(struct peer *peer, const struct words *words);
void command_start_server(struct peer *peer, const struct words *words);
void command_shutdown_server(struct peer *peer, const struct words *words);
void command_quit(struct peer *peer, const struct words *words);
void command_log_level(struct peer *peer, const struct words *words);

/* command_client.c */
void command_get_client_list(struct peer *peer, const struct words *words);
void command_get_device_client_list(struct peer *peer, const struct words *words);
void command_ps(struct peer *peer, const struct words *words);

/* command_device.c */
void command_device_query(struct peer *peer, const struct words *words);

/* command_partition.c */
void command_lspart(struct peer *peer, const struct words *words);
void command_sm_partition(struct peer *peer, const struct words *words);

/* command_limit.c */
void command_set_default_percentage(struct peer *peer, const struct words *words);
void command_get_default_percentage(struct peer *peer, const struct words *words);
void command_set_percentage(struct peer *peer, const struct words *words);
void command_get_percentage(struct peer *peer, const struct words *words);
void command_set_default_memory(struct peer *peer, const struct words *words);
void command_get_default_memory(struct peer *peer, const struct words *words);
void command_set_memory(struct peer *peer, const struct words *words);
void command_get_memory(struct peer *peer, const struct words *words);
void command_set_default_priority(struct peer *peer, const struct words *words);
void command_get_default_priority(struct peer *peer, const struct words *words);
void command_set_priority(struct peer *peer, const struct words *words);
void command_get_priority(struct peer *peer, const struct words *words);

/* command_group.c */
void command_group(struct peer *peer, const struct words *words);

#endif
