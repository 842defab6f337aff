/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NAMESPACES_H
#define NAMESPACES_H

/*
 * Named servers and their namespaces (protocol 3): how they are made and removed. Loop thread.
 */

#include "daemon/text/error_message.h"
#include "daemon/state/namespace.h"

struct conn;
struct daemon;
struct slot;
struct tenant;

/* NULL if there is none. */
struct namespace *namespace_find(const struct slot *slot, const char *name);

/* The name is new and valid. 0 or -errno with an error message. */
int namespace_create(struct slot *slot, const char *name, struct namespace **ret_namespace,
	struct error_message *error);

/*
 * Removes a namespace and its directory as soon as the work of its clients has ended: no further
 * ones come. `ender' waits for that.
 */
void namespace_delete(struct namespace *namespace, struct conn *ender);

/*
 * Creates a named slot with its namespace `default'; takes `devices'. The name is new and valid. 0
 * or -errno with an error message.
 */
int named_server_create(struct tenant *tenant, const char *name, char *devices,
	struct slot **ret_slot, struct error_message *error);

/*
 * The named slot of the previous daemon's record, made if it is missing; takes `devices', or NULL.
 * Without namespaces. NULL without memory, or if the name is not valid.
 */
struct slot *named_server_restore(struct tenant *tenant, const char *name, char *devices);

/*
 * Removes a named server and its namespaces: the clients that wait for it are refused, and its
 * process ends, when its clients have left or (`force') now. `ender' (or NULL) waits for that.
 */
void named_server_delete(struct slot *slot, bool force, struct conn *ender);

/*
 * Frees deleted namespaces whose clients have ended, and named slots whose servers have ended, or
 * that never had one. `enders' gets the connections that wait for that, to be answered after the
 * record has been written.
 */
void named_servers_sweep(struct daemon *daemon, struct list *enders);
void named_servers_answer(struct list *enders);

/* The daemon ends: closes all sockets, and frees all named slots. The directories stay. */
void named_servers_close(struct daemon *daemon);

#endif
