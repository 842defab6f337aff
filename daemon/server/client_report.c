/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: only the first report of an adopted server adds clients, and each of them is of the
 * server's user, or the server is trusted.
 */

#include "client_report.h"

#include <string.h>

#include "cgroup_groups.h"
#include "clients.h"
#include "group_shares.h"
#include "membership.h"
#include "server.h"
#include "daemon/text/process.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"
#include "daemon/state/tenant_log.h"

void client_report_begin(struct server *server)
{
	server->is_reporting = true;
	list_each (struct client, client, &server->clients, link) {
		client->is_reported = false;
		/* The command has failed with the connection. */
		if (client->termination != TERMINATION_DONE)
			client->termination = TERMINATION_NONE;
		/* The server reports it again. */
		client->suspension = (struct client_suspension){0};
	}
}

static void log_claim(const struct server *server, const struct frame_client_note *note)
{
	const struct log_subject about = {
		.server = server->pid, .has_uid = true, .uid = server->tenant->uid};

	tenant_log(server->tenant, &about,
		"Server %d of user %u claims that process %d of user %u is its client, which is "
		"not believed",
		server->pid, server->tenant->uid, (int)note->pid, note->uid);
}

/*
 * Refuses what the note says of other users. A session without a client that the daemon can name
 * remains, and counts as one of the server's user.
 */
static void refuse_claims(const struct server *server, struct frame_client_note *note)
{
	uid_t uid = server->tenant->uid;
	bool may_have = note->uid == uid || daemon_trusts_server(server->daemon, uid);

	if (may_have && (note->pid == 0 || !process_is_of_others((pid_t)note->pid, note->uid)))
		return;
	log_claim(server, note);
	note->pid = 0;
	if (!may_have)
		*note = (struct frame_client_note){.id = note->id, .uid = uid};
}

/*
 * The group and the partitions that an earlier daemon has decided. A server can claim no more than
 * a client of its user could have.
 */
static void restore_membership(
	struct server *server, const struct frame_client_note *note, struct client *client)
{
	const struct group *group = groups_find(&server->daemon->groups, note->group);

	client->is_reported = true;
	if (group && membership_is_possible(server, group))
		client->group = group->id;
	cgroup_groups_join_process(server->daemon, client->pid, client->cgroups);
	memcpy(client->partition, note->partition, sizeof(client->partition));
	client_set_probation(client, server->daemon, MIN(note->probation_ms, PROBATION_MS));
}

/* A client that this daemon has not handed over. */
static int add_unknown(struct server *server, const struct frame_client_note *note)
{
	struct frame_client_note believed = *note;
	struct client *client;
	int r;

	if (server->knows_clients) {
		log_claim(server, note);
		return 0;
	}
	refuse_claims(server, &believed);
	r = clients_add(server, &believed, &client);
	if (r == 0)
		restore_membership(server, &believed, client);
	server_bound_end(server);
	return r;
}

int client_report_add(struct server *server, const struct frame_client_note *note)
{
	struct client *client = clients_find(server, note->id);

	if (!server->is_reporting || note->id == 0 || note->pid > INT32_MAX ||
		!frame_text_ok(note->command, sizeof(note->command)) ||
		!frame_text_ok(note->group, sizeof(note->group)))
		return -EBADMSG;
	if (!client)
		return add_unknown(server, note);
	client->is_reported = true;
	return 0;
}

void client_report_end(struct server *server)
{
	if (!server->is_reporting)
		return;
	server->is_reporting = false;
	server->knows_clients = true;
	group_shares_on_report(server);
	list_each_safe (const struct client, client, &server->clients, link)
		if (!client->is_reported)
			clients_remove(server, client->id);
}
