/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The module `sm-partition' of protocol 3: create, delete, bind, unbind. Loop thread.
 *
 * Invariant: no client of a server runs on all SMs of a GPU on which the server has partitions.
 */

#include <stdio.h>
#include <string.h>

#include "limit_text.h"
#include "modules.h"
#include "daemon/config/devices.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"
#include "daemon/state/partitions.h"
#include "daemon/state/slot.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/partition_choice.h"
#include "daemon/server/server.h"
#include "daemon/reply/command_reply.h"

/* What the words of a command name. */
struct partition_scope {
	struct slot *slot;
	const struct frame_device *device;
	char uuid[DEVICE_UUID_TEXT];
};

/* The readers below return false if they have answered the connection. */
static bool find_scope(
	struct conn *conn, const struct tokens *tokens, struct partition_scope *scope)
{
	const char *server = arguments_get(tokens, "server");
	const char *device = arguments_get(tokens, "device");

	if (!server || !device) {
		command_fail(conn, "%s needs --server=SERVER and --device=DEVICE", tokens->item[0]);
		return false;
	}
	scope->slot = module_find_slot_to_change(conn, server);
	scope->device = scope->slot ? module_find_device(conn, device) : NULL;
	if (!scope->device)
		return false;
	device_uuid_text(scope->device, scope->uuid);
	return module_has_device(scope->slot, scope->device) ||
	       command_fail(conn, "Server '%s' does not have device %s", server, scope->uuid);
}

static struct partition *find_partition(
	struct conn *conn, const struct tokens *tokens, struct partition_scope *scope)
{
	struct partition *partition;

	if (!find_scope(conn, tokens, scope))
		return NULL;
	partition = partitions_find_named(
		&conn->daemon->partitions, scope->device, tokens->item[1], scope->slot);
	if (!partition)
		command_fail(conn,
			"SM partition '%s' not found on device %s: see sm-partition list",
			tokens->item[1], scope->uuid);
	return partition;
}

/* ---- create */

static bool read_chunks(struct conn *conn, const struct tokens *tokens, const char *key,
	const struct frame_device *device, unsigned *ret_n)
{
	const char *text = arguments_get(tokens, key);
	uint64_t n;

	if (!text)
		return command_fail(conn,
			"sm-partition create needs --%s=N, 1 to %u: a chunk of this GPU has %u SMs",
			key, device->n_chunks, device->sm_chunk);
	if (parse_number(text, 64, &n) == 0 && n > 0) {
		*ret_n = (unsigned)n;
		return true;
	}
	return command_fail(conn,
		"\"%s\" is not a number of chunks: --%s takes 1 to %u, and a chunk of this GPU has "
		"%u SMs",
		text, key, device->n_chunks, device->sm_chunk);
}

static bool read_switch(
	struct conn *conn, const struct tokens *tokens, const char *key, bool *ret_is_on)
{
	const char *text = arguments_get(tokens, key);

	*ret_is_on = text && strcmp(text, "true") == 0;
	return !text || *ret_is_on || strcmp(text, "false") == 0 ||
	       command_fail(conn, "\"%s\" is neither: --%s takes true or false", text, key);
}

static bool read_wish(struct conn *conn, const struct tokens *tokens,
	const struct partition_scope *scope, struct partition_wish *wish)
{
	const char *name = tokens->item[1];

	*wish = (struct partition_wish){.slot = scope->slot, .name = name};
	if (!server_name_ok(name))
		return command_fail(conn,
			"\"%s\" is not a name of an SM partition: it must "
			"have " SERVER_NAME_ACCEPTED,
			name);
	if (!read_chunks(conn, tokens, "chunks", scope->device, &wish->n_chunks) ||
		!read_switch(conn, tokens, "include-remainder", &wish->has_remainder) ||
		!read_switch(conn, tokens, "shareable", &wish->is_shareable))
		return false;
	if (!arguments_get(tokens, "max-chunks"))
		return true;
	if (!read_chunks(conn, tokens, "max-chunks", scope->device, &wish->max_chunks))
		return false;
	return wish->max_chunks >= wish->n_chunks ||
	       command_fail(conn,
		       "--max-chunks=%u is less than --chunks=%u: it is the most that a client has",
		       wish->max_chunks, wish->n_chunks);
}

/* Whether clients of the server may run on all SMs of the GPU, now or when they open it. */
static bool is_in_use(const struct daemon *daemon, const struct partition_scope *scope)
{
	const struct server *server = scope->slot->server;

	return server && server->n_clients > 0 && !daemon->config.is_partitioned &&
	       !partitions_used(&daemon->partitions, scope->device, scope->slot);
}

static void refuse_chunks(struct conn *conn, const struct partition_scope *scope,
	const struct partition_wish *wish, int error)
{
	uint64_t used = partitions_used(&conn->daemon->partitions, scope->device, scope->slot);
	unsigned n = chunks_count(chunks_of(scope->device) & ~(used | wish->lent));

	if (error == -ENOMEM)
		command_fail(conn, "The daemon is out of memory");
	else if (error == -EBUSY)
		command_fail(conn,
			"Device %s has no remaining SMs for --include-remainder: another partition "
			"has them, or all SMs are in chunks",
			scope->uuid);
	else
		command_fail(conn,
			"Failed to fulfill the requested SM partition of %u chunks, error "
			"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION: %u of %u chunks are free%s",
			wish->n_chunks, n, scope->device->n_chunks,
			wish->lent ? ", and more when clients of elastic partitions have ended"
				   : "");
}

static void reply_created(
	struct conn *conn, const struct partition_scope *scope, const struct partition *partition)
{
	char name[PARTITION_NAME_MAX];

	partition_name(partition, scope->device, name);
	command_reply(conn, "SM partition '%s' created on device %s (sm-count=%u)", partition->name,
		scope->uuid, chunks_sms(partition->chunks, scope->device));
	command_reply(conn, "CUDA_MPS_SM_PARTITION=%s", name);
}

void module_sm_partition_create(struct conn *conn, const struct tokens *tokens)
{
	struct list *partitions = &conn->daemon->partitions;
	struct partition *partition;
	struct partition_wish wish;
	struct partition_scope scope = {0};
	int r;

	if (!find_scope(conn, tokens, &scope) || !read_wish(conn, tokens, &scope, &wish))
		return;
	if (partitions_find_named(partitions, scope.device, wish.name, wish.slot)) {
		if (!module_keeps(conn, "SM partition", wish.name))
			command_fail(conn, "SM partition '%s' already exists on device %s",
				wish.name, scope.uuid);
		return;
	}
	if (is_in_use(conn->daemon, &scope)) {
		command_fail(conn,
			"Server '%s' has %u client%s, which may have all SMs of device %s: end "
			"them first",
			arguments_get(tokens, "server"), wish.slot->server->n_clients,
			wish.slot->server->n_clients > 1 ? "s" : "", scope.uuid);
		return;
	}
	if (wish.slot->server)
		wish.lent = partition_lent(wish.slot->server, scope.device, NULL);
	r = partitions_add(partitions, scope.device, &wish, &partition);
	if (r < 0) {
		refuse_chunks(conn, &scope, &wish, r);
		return;
	}
	daemon_want(conn->daemon, WANT_RECORD);
	reply_created(conn, &scope, partition);
}

/* ---- delete */

void module_sm_partition_delete(struct conn *conn, const struct tokens *tokens)
{
	struct partition_scope scope = {0};
	struct partition *partition = find_partition(conn, tokens, &scope);
	unsigned n = partition ? partition_count_clients(conn->daemon, partition) : 0;

	if (!partition)
		return;
	if (n > 0) {
		command_fail(conn, "SM partition '%s' has %u client%s: end them first",
			partition->name, n, n > 1 ? "s" : "");
		return;
	}
	if (!list_empty(&partition->bindings)) {
		command_fail(conn,
			"A namespace is bound to SM partition '%s': sm-partition list --long shows "
			"it, sm-partition unbind releases it",
			partition->name);
		return;
	}
	command_reply(
		conn, "SM partition '%s' deleted from device %s", partition->name, scope.uuid);
	partition_free(partition);
	daemon_want(conn->daemon, WANT_RECORD);
}

/* ---- bind and unbind */

static const struct namespace *find_namespace(
	struct conn *conn, const struct tokens *tokens, const struct partition_scope *scope)
{
	const char *name = arguments_get(tokens, "namespace");

	if (name)
		return module_find_namespace(conn, scope->slot, name);
	command_fail(conn, "%s needs --namespace=NAMESPACE", tokens->item[0]);
	return NULL;
}

/* Whether the partition may be bound to the namespace now; false: the connection is answered. */
static bool may_bind(struct conn *conn, const struct partition_scope *scope,
	const struct partition *partition, const struct namespace *namespace)
{
	uint32_t group = namespace->group->id;
	const struct partition *other =
		partitions_find_bound(&conn->daemon->partitions, scope->device, group);
	unsigned n = partition_count_others(conn->daemon, partition, group);

	if (other)
		return command_fail(conn,
			"Namespace '%s' is bound to SM partition '%s' of this device",
			namespace->name, other->name);
	if (partition->is_shareable)
		return true;
	if (!list_empty(&partition->bindings))
		return command_fail(conn,
			"SM partition '%s' is bound to another namespace, and was not created with "
			"--shareable=true",
			partition->name);
	return n == 0 ||
	       command_fail(conn,
		       "SM partition '%s' has %u client%s of other namespaces: end them first",
		       partition->name, n, n > 1 ? "s" : "");
}

static void note_later(struct conn *conn, const struct namespace *namespace)
{
	unsigned n = clients_count_group(conn->daemon, namespace->group->id);

	if (n > 0)
		command_note(conn,
			"This counts for clients that come from now on, and not for the %u that %s "
			"there",
			n, n > 1 ? "are" : "is");
}

static bool keeps_binding(
	struct conn *conn, const struct partition *partition, const struct namespace *namespace)
{
	return partition_is_bound(partition, namespace->group->id) &&
	       module_keeps(conn, "The SM partition of namespace", namespace->name);
}

void module_sm_partition_bind(struct conn *conn, const struct tokens *tokens)
{
	struct partition_scope scope = {0};
	struct partition *partition = find_partition(conn, tokens, &scope);
	const struct namespace *namespace = partition ? find_namespace(conn, tokens, &scope) : NULL;

	if (!namespace || keeps_binding(conn, partition, namespace) ||
		!may_bind(conn, &scope, partition, namespace))
		return;
	if (partition_bind(partition, namespace->group->id) < 0) {
		command_fail(conn, "The daemon is out of memory");
		return;
	}
	daemon_want(conn->daemon, WANT_RECORD);
	note_later(conn, namespace);
}

void module_sm_partition_unbind(struct conn *conn, const struct tokens *tokens)
{
	struct partition_scope scope = {0};
	struct partition *partition = find_partition(conn, tokens, &scope);
	const struct namespace *namespace = partition ? find_namespace(conn, tokens, &scope) : NULL;

	if (!namespace)
		return;
	if (!partition_is_bound(partition, namespace->group->id)) {
		command_fail(conn, "Namespace '%s' is not bound to SM partition '%s'",
			namespace->name, partition->name);
		return;
	}
	partition_unbind(partition, namespace->group->id);
	daemon_want(conn->daemon, WANT_RECORD);
	note_later(conn, namespace);
}
