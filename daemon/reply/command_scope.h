/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMAND_SCOPE_H
#define COMMAND_SCOPE_H

/*
 * Who may give a command, and its target: a server, a group, a GPU. A target
 * that is not found or not permitted is answered here. Loop thread.
 */

#include <sys/types.h>

#include "daemon/text/json.h"
#include "daemon/text/tokenize.h"
#include "daemon/config/devices.h"

struct group;
struct conn;
struct server;
struct settings;

/* Whether the connection is of `owner' or trusted; false: the refusal has been sent. */
bool scope_permits(struct conn *conn, const char *command, uid_t owner);

/* The same for commands that concern all users. */
bool scope_permits_config(struct conn *conn, const char *command);

/*
 * The server of that PID, if the connection may see it or (`is_to_change')
 * change it; else NULL, and the connection is answered.
 */
struct server *scope_find_server(
	struct conn *conn, const char *command, const char *pid, bool is_to_change);

struct group *scope_find_group(struct conn *conn, const char *name);

/* What a command about limits is about: the defaults, a server, or with "-group NAME" a group. */
struct scope {
	const struct server *server;
	struct group *group;
	struct settings *layer;        /* that the connection's user writes */
	bool is_wish;                  /* that layer only lowers */
	const struct devices *devices; /* which GPUs can be named */
	size_t next;                   /* the next token */
};

/* False: the connection is answered. */
bool scope_find(struct conn *conn, const struct tokens *tokens, bool is_to_set, struct scope *ret);

/* What counts there; in the server of all users: for the connection's user. */
struct settings scope_settings(const struct conn *conn, const struct scope *scope);

/* The settings have been changed. */
void scope_changed(struct conn *conn, const struct scope *scope);

/* Whether the GPU exists, as far as GPUs are known; false: the connection is answered. */
bool scope_check_device(struct conn *conn, const struct devices *devices, const char *name);

/* Replies that a name could not be checked, if so. */
void scope_note_unchecked(struct conn *conn, const struct devices *devices, const char *name);

/* The part of a GPU's UUID that tables show: "GPU-01234567-89ab-cdef". */
void scope_short_uuid(const struct frame_device *device, char text[DEVICE_UUID_TEXT]);

/* Replies with the document. Takes it. */
void scope_reply_json(struct conn *conn, json_t *document);

/* Closes the stream. */
void scope_reply_stream(struct conn *conn, struct json_stream *stream);

#endif
