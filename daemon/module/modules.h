/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODULES_H
#define MODULES_H

/*
 * The commands of protocol 3, one file for each module; and what these files share. The table in
 * command.c has checked the number of tokens, and the names of the options. Loop thread.
 */

#include <limits.h>

#include "frame.h"
#include "daemon/text/arguments.h"
#include "daemon/text/table.h"
#include "daemon/state/server_name.h"

struct conn;
struct frame_device;
struct group;
struct namespace;
struct slot;

/* module_server.c */
void module_server_list(struct conn *conn, const struct tokens *tokens);
void module_server_get(struct conn *conn, const struct tokens *tokens);
void module_server_set(struct conn *conn, const struct tokens *tokens);

/* module_namespace.c */
void module_namespace_create(struct conn *conn, const struct tokens *tokens);
void module_namespace_delete(struct conn *conn, const struct tokens *tokens);
void module_namespace_list(struct conn *conn, const struct tokens *tokens);
void module_namespace_set(struct conn *conn, const struct tokens *tokens);
void module_namespace_get(struct conn *conn, const struct tokens *tokens);

/* module_server_create.c */
void module_server_create(struct conn *conn, const struct tokens *tokens);
void module_server_delete(struct conn *conn, const struct tokens *tokens);

/* module_client.c */
void module_client_list(struct conn *conn, const struct tokens *tokens);
void module_client_get(struct conn *conn, const struct tokens *tokens);
void module_client_terminate(struct conn *conn, const struct tokens *tokens);

/* module_device.c */
void module_device_list(struct conn *conn, const struct tokens *tokens);

/* module_sm_partition.c */
void module_sm_partition_create(struct conn *conn, const struct tokens *tokens);
void module_sm_partition_delete(struct conn *conn, const struct tokens *tokens);
void module_sm_partition_bind(struct conn *conn, const struct tokens *tokens);
void module_sm_partition_unbind(struct conn *conn, const struct tokens *tokens);

/* module_sm_partition_list.c */
void module_sm_partition_list(struct conn *conn, const struct tokens *tokens);

/* module_feature.c */
void module_feature_enable(struct conn *conn, const struct tokens *tokens);
void module_feature_disable(struct conn *conn, const struct tokens *tokens);
void module_feature_describe(struct conn *conn, const struct tokens *tokens);
void module_context_share_set(struct conn *conn, const struct tokens *tokens);
void module_context_share_describe(struct conn *conn, const struct tokens *tokens);

/* What is not served, and what to do instead. */
#define MODULE_NO_DOMAINS                                                                          \
	"cannot be true: this service does not divide GPUs by their memory. Partitions divide "    \
	"their SMs (sm-partition create)"
#define MODULE_SHARES_CONTEXT                                                                      \
	"cannot be false: clients of a server run in its context. default_socket=off gives each "  \
	"program in the daemon's own directory a server of its own"

/* module_memacct.c */
void module_memacct_set(struct conn *conn, const struct tokens *tokens);
void module_memacct_describe(struct conn *conn, const struct tokens *tokens);

/* ---- limits of a namespace (module_limit.c) */

/* The options of the limits. */
#define MODULE_LIMITS                                                                              \
	" [--pinned-memory-limit=SIZE] [--active-thread-percentage=PERCENTAGE]"                    \
	" [--client-priority=PRIORITY] [--soft-limit=SIZE]"

/*
 * Sets what the options say: all of it or, if a value is wrong, nothing. `has_more': there are
 * other options, so none of these is needed. False: the connection is answered.
 */
bool module_set_limits(
	struct conn *conn, const struct tokens *tokens, struct group *group, bool has_more);

/* The cells of the three limits of the vendor's list, and that of the soft limit. */
void module_add_limits(struct table *table, const struct group *group);
void module_add_soft_limit(struct table *table, const struct group *group);

/* ---- cgroups of namespaces (module_route.c) */

#define MODULE_ROUTE " [--cgroup=PATH] [--cgroup-depth=LEVELS]"

struct route {
	char cgroup[GROUP_NAME_MAX];
	uint32_t depth;
};

/*
 * What the options make of the namespace's route; NULL: of a new namespace of that slot. False: the
 * connection is answered.
 */
bool module_read_route(struct conn *conn, const struct tokens *tokens, const struct slot *slot,
	const struct namespace *namespace, struct route *ret_route);

/* Whether an option is about the route. */
bool module_has_route(const struct tokens *tokens);

/* The cells of the route. */
void module_add_route(struct table *table, const struct namespace *namespace);

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
 * The slot of the named server that the connection's user may see, or may change. NULL: there is
 * none, and the connection is answered.
 */
struct slot *module_find_slot(struct conn *conn, const char *name);
struct slot *module_find_slot_to_change(struct conn *conn, const char *name);

/*
 * Whether the command is of the file of -a, so that what it makes may be there already: the record
 * of a daemon that has died had it.
 */
bool module_keeps(struct conn *conn, const char *kind, const char *name);

/* False: --locality-domains is true, which is not served, and the connection is answered. */
bool module_check_domains(struct conn *conn, const struct tokens *tokens);

/* The GPU of that name, as --allowed-devices has it. NULL: the connection is answered. */
const struct frame_device *module_find_device(struct conn *conn, const char *name);

/* Whether the slot's server has the GPU, or will have it. */
bool module_has_device(const struct slot *slot, const struct frame_device *device);

/* The vendor's word for the state of the slot's server. */
const char *module_status(const struct slot *slot);

/* The directory in which clients of the slot's server connect. */
#define MODULE_DIRECTORY_MAX (PATH_MAX + SERVER_NAME_MAX)
void module_directory(const struct slot *slot, char text[MODULE_DIRECTORY_MAX]);

/* The namespace of the slot; NULL: there is none, and the connection is answered. */
struct namespace *module_find_namespace(
	struct conn *conn, const struct slot *slot, const char *name);

/*
 * Whether a list shows the namespace to the connection's user: the server is the user's, or a
 * client of the user or the connection itself has come by the namespace's socket.
 */
bool module_shows_namespace(const struct conn *conn, const struct namespace *namespace);

/* Whether a list shows the slot's server to the connection's user: it may have clients of the user.
 */
bool module_shows_slot(const struct conn *conn, const struct slot *slot);

/* Whether the server of the slot has that name; NULL: any. */
bool module_is_chosen(const struct slot *slot, const char *name);

#endif
