/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_SCOPE_H
#define COMMAND_SCOPE_H

/*
 * Who may give a command, and what it is about: a server, a group, a GPU. What
 * is not found or not permitted is answered here. Loop thread.
 */

#include <sys/types.h>

#include "devices.h"
#include "tokenize.h"

struct client;
struct group;
struct json;
struct conn;
struct server;
struct settings;

/* Whether the connection is `owner' or may do everything; false: it has been refused. */
bool scope_permits(struct conn *conn, const char *command, uid_t owner);

/* The same for what concerns all users. */
bool scope_permits_config(struct conn *conn, const char *command);

/* Whether a list shows it to the connection: what is his own, and everything to root. */
bool scope_sees_server(const struct conn *conn, const struct server *server);
bool scope_sees_client(
	const struct conn *conn, const struct server *server, const struct client *client);

/* The server of that PID, if the connection may change it, or see it; else NULL, and it is
 * answered. */
struct server *scope_find_server(
	struct conn *conn, const char *command, const char *pid, bool is_to_change);

struct group *scope_find_group(struct conn *conn, const char *name);

/* What is set where: a server's, or with "-group NAME" a group's. */
struct scope {
	struct settings *settings;
	const struct devices *devices; /* by which GPUs are named */
	struct group *group;           /* NULL: a server's */
	size_t next;                   /* the word behind */
};

/* False: it is answered. */
bool scope_find(struct conn *conn, const struct tokens *tokens, bool is_to_set, struct scope *ret);

/* The settings have been changed. */
void scope_changed(struct conn *conn, const struct scope *scope);

/* The GPUs that the daemon knows of. */
const struct devices *scope_devices(const struct conn *conn);

/* Whether there is such a GPU, as far as GPUs are known; false: it is answered. */
bool scope_check_device(struct conn *conn, const struct devices *devices, const char *name);

/* Tells that a name could not be checked, if so. */
void scope_note_unchecked(struct conn *conn, const struct devices *devices, const char *name);

/* What tables show of a GPU's UUID: "GPU-01234567-89ab-cdef". */
void scope_short_uuid(const struct frame_device *device, char text[DEVICE_UUID_TEXT]);

/* Replies with the document, and frees it. */
void scope_reply_json(struct conn *conn, struct json *json);

#endif
