/* SPDX-License-Identifier: Apache-2.0 */

/*
 * server create and server delete, of protocol 3. Loop thread.
 *
 * Invariant: a server that could not start leaves nothing behind.
 */

#include <stdio.h>
#include <string.h>

#include "limit_text.h"
#include "modules.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/namespaces.h"
#include "daemon/server/server.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/* ---- create */

/* What the words of the command say. */
struct creation {
	const char *name; /* NULL: uid_UID */
	uid_t uid;        /* the owner */
};

/* The readers below return false if they have answered the connection. */
static bool read_uid(struct conn *conn, const char *text, struct creation *creation)
{
	const struct config *config = &conn->daemon->config;
	uint64_t uid;

	if (parse_number(text, UINT32_MAX - 1, &uid) < 0)
		return command_fail(
			conn, "\"%s\" is not a user id (UID): --uid takes a number", text);
	if (config->is_multiuser && uid != 0)
		return command_fail(conn,
			"The daemon runs one kind of server, for all users: leave --uid out, or "
			"say --uid=0");
	creation->uid = config->is_multiuser ? config->server_uid : (uid_t)uid;
	return true;
}

static bool check_name(struct conn *conn, const char *name)
{
	if (!server_name_ok(name))
		return command_fail(conn,
			"\"%s\" is not a name of a server: it must have " SERVER_NAME_ACCEPTED,
			name);
	if (server_name_is_taken(name) || strncmp(name, "uid_", strlen("uid_")) == 0)
		return command_fail(
			conn, "The name %s is taken by the daemon: choose another one", name);
	if (slot_find_named(conn->daemon, name))
		return command_fail(conn, "Server '%s' already exists", name);
	return true;
}

static bool read_creation(struct conn *conn, const struct tokens *tokens, struct creation *creation)
{
	const char *uid = arguments_get(tokens, "uid");

	*creation = (struct creation){
		.name = tokens->n > 1 ? tokens->item[1] : NULL,
		.uid = conn->daemon->config.is_multiuser ? conn->daemon->config.server_uid
							 : conn->cred.uid,
	};
	if (!creation->name && !uid)
		return command_fail(conn, "server create needs a NAME or --uid=UID");
	if (!module_check_domains(conn, tokens))
		return false;
	if (uid && !read_uid(conn, uid, creation))
		return false;
	return !creation->name || check_name(conn, creation->name);
}

/* Whether the user may create a server that has the rights of `uid', now. */
static bool may_create(struct conn *conn, const struct tokens *tokens, uid_t uid)
{
	struct daemon *daemon = conn->daemon;
	struct error_message error;

	if (!scope_permits(conn, tokens->item[0], daemon->config.is_multiuser ? 0 : uid))
		return false;
	if (!daemon_serves(daemon, uid))
		return command_fail(conn,
			"The daemon runs as UID %u and serves that user only: start it as root to "
			"serve UID %u too",
			daemon->config.uid, uid);
	if (!daemon->is_quitting)
		return true;
	daemon_say_quitting(daemon, &error);
	return command_fail(conn, "%s", error.text);
}

static bool has_space(struct conn *conn, const struct tenant *tenant)
{
	if (daemon_trusts_server(conn->daemon, tenant->uid) ||
		tenant->account->n_named < NAMED_SERVERS_MAX)
		return true;
	return command_fail(conn,
		"UID %u with its subordinate UIDs has %d named servers, which is "
		"the maximum: delete one",
		tenant->account->uid, NAMED_SERVERS_MAX);
}

/* The UUID of one GPU of the list, at the end of `text'. */
static bool add_device(struct conn *conn, const char *name, char *text, size_t size)
{
	const struct devices *devices = &conn->daemon->devices;
	const struct frame_device *device;
	char uuid[DEVICE_UUID_TEXT];
	size_t used = strlen(text);

	if (devices->n == 0)
		return command_fail(
			conn, "The GPUs are not known: %s", conn->daemon->probe_failure.text);
	if (!scope_check_device(conn, devices, name) || devices_find(devices, name, &device) < 0)
		return false;
	device_uuid_text(device, uuid);
	if (strstr(text, uuid))
		return command_fail(conn, "Device \"%s\" is in --allowed-devices twice", name);
	snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "", uuid);
	return true;
}

/* The GPUs by their UUIDs; NULL: all. False: the connection is answered. */
static bool read_devices(struct conn *conn, const struct tokens *tokens, char **ret_devices)
{
	const char *list = arguments_get(tokens, "allowed-devices");
	char text[DEVICES_MAX * DEVICE_UUID_TEXT] = "", copy[COMMAND_MAX], *rest = copy, *name;

	*ret_devices = NULL;
	if (!list)
		return true;
	snprintf(copy, sizeof(copy), "%s", list);
	while ((name = strsep(&rest, ",")))
		if (!add_device(conn, name, text, sizeof(text)))
			return false;
	*ret_devices = strdup(text);
	return *ret_devices || command_fail(conn, "The daemon is out of memory");
}

static void create_named(
	struct conn *conn, const struct creation *creation, struct tenant *tenant, char *devices)
{
	struct daemon *daemon = conn->daemon;
	struct error_message error;
	struct slot *slot;

	if (named_server_create(tenant, creation->name, devices, &slot, &error) < 0) {
		command_fail(conn, "%s", error.text);
		return;
	}
	log_control(&daemon->logs, "Adding server '%s'%s", creation->name,
		daemon->config.is_multiuser ? " [multiuser enabled]" : "");
	daemon_want(daemon, WANT_RECORD);
	slot_add_starter(slot, conn);
}

/*
 * The file of -a is applied again after a daemon has died: the server that its record has stays.
 * Waits until it is ready.
 */
static bool keeps_server(struct conn *conn, const struct tokens *tokens)
{
	const char *name = tokens->n > 1 ? tokens->item[1] : NULL;
	struct slot *slot = name ? slot_find_named(conn->daemon, name) : NULL;

	if (!slot || !module_keeps(conn, "Server", name))
		return false;
	slot_add_starter(slot, conn);
	return true;
}

void module_server_create(struct conn *conn, const struct tokens *tokens)
{
	struct creation creation;
	struct tenant *tenant;
	char *devices;

	if (keeps_server(conn, tokens))
		return;
	if (!read_creation(conn, tokens, &creation) || !may_create(conn, tokens, creation.uid))
		return;
	tenant = tenant_get(conn->daemon, creation.uid, -EBADF);
	if (!tenant)
		command_fail(conn, "The daemon is out of memory");
	else if (!creation.name && arguments_get(tokens, "allowed-devices"))
		command_fail(conn, "--allowed-devices needs the NAME of a server");
	else if (!creation.name)
		slot_add_starter(&tenant->shared, conn);
	else if (has_space(conn, tenant) && read_devices(conn, tokens, &devices))
		create_named(conn, &creation, tenant, devices);
}

/* ---- delete */

static const struct pending pending_delete = {0};

static unsigned count_clients(const struct slot *slot)
{
	unsigned n = slot->server ? slot->server->n_clients : 0;

	list_each (const struct conn, conn, &slot->clients, wait)
		n++;
	return n;
}

/* The server's own deadlines bound the wait. */
void module_server_delete(struct conn *conn, const struct tokens *tokens)
{
	bool force = arguments_get(tokens, "force");
	struct slot *slot = module_find_slot_to_change(conn, tokens->item[1]);
	unsigned n = slot ? count_clients(slot) : 0;

	if (!slot)
		return;
	if (n > 0 && !force) {
		command_fail(conn, "Server '%s' has %u client%s: end them first, or use --force",
			tokens->item[1], n, n > 1 ? "s" : "");
		return;
	}
	if (!*slot->name) {
		/* A server of a user comes again with that user's next client. */
		if (slot->server)
			server_shutdown(slot->server, force);
		else
			command_fail(conn, "Server '%s' does not run", tokens->item[1]);
		return;
	}
	pending_begin(conn, &pending_delete, 0);
	named_server_delete(slot, force, conn);
}
