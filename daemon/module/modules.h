/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODULES_H
#define MODULES_H

/*
 * The commands of protocol 3, one file for each module; and what these files share. The table in
 * command.c has checked the number of tokens, and the names of the options. Loop thread.
 */

#include "daemon/text/arguments.h"
#include "daemon/text/table.h"

struct conn;
struct slot;

/* module_server.c */
void module_server_list(struct conn *conn, const struct tokens *tokens);
void module_server_get(struct conn *conn, const struct tokens *tokens);

/* module_client.c */
void module_client_list(struct conn *conn, const struct tokens *tokens);
void module_client_get(struct conn *conn, const struct tokens *tokens);
void module_client_terminate(struct conn *conn, const struct tokens *tokens);

/* module_device.c */
void module_device_list(struct conn *conn, const struct tokens *tokens);

/* ---- what they share (module.c) */

/* A table in the format that the command names. False: the connection is answered. */
bool module_open_table(struct conn *conn, const struct tokens *tokens, const char *const *columns,
	size_t n_columns, struct table *table);

/* Replies with the table. */
void module_reply_table(struct conn *conn, struct table *table);

/* Replies with one cell of its first row, without a title. */
void module_reply_cell(struct conn *conn, struct table *table, size_t column);

/*
 * The column whose name is the field, with - and _ alike. Negative: there is none, and the
 * connection is answered.
 */
int module_find_field(
	struct conn *conn, const char *const *columns, size_t n_columns, const char *field);

/*
 * The slot of the named server that the connection's user may see. NULL: there is none, and the
 * connection is answered.
 */
struct slot *module_find_slot(struct conn *conn, const char *name);

/* Whether a list shows the server of the slot to the connection's user. */
bool module_shows_slot(const struct conn *conn, const struct slot *slot);

/* Whether the server of the slot has that name; NULL: any. */
bool module_is_chosen(const struct slot *slot, const char *name);

#endif
