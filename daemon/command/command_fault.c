/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command get_last_fault. Loop thread.
 *
 * Invariant: only the user itself, root and the daemon's user see the names of
 * a user's programs, groups and kernels.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "quote.h"
#include "daemon/text/demangle.h"
#include "daemon/text/tokenize.h"
#include "daemon/state/daemon.h"
#include "daemon/state/quarantine.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/watch/faults.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

#define ADDRESS_TEXT 24

static bool may_see_client(const struct conn *conn, const struct fault_client *fault_client)
{
	return conn_is_trusted(conn) || fault_client->uid == conn->cred.uid;
}

/* The kernel that caused the fault, or "" if the connection may not see it. */
static const char *fault_kernel(const struct conn *conn, const struct fault *fault)
{
	return fault_is_certain(fault) && may_see_client(conn, &fault->clients[0]) ? fault->kernel
										   : "";
}

static void format_address(const struct fault *fault, char text[ADDRESS_TEXT])
{
	if (fault->address)
		snprintf(text, ADDRESS_TEXT, "0x%" PRIx64, fault->address);
	else
		snprintf(text, ADDRESS_TEXT, "not known");
}

/* What the fault means for the program that caused it. */
struct program_state {
	const char *text; /* NULL: nothing, or no more */
	uint32_t left_s;
};

static struct program_state fault_program_state(const struct conn *conn, const struct fault *fault)
{
	const struct fault_client *culprit = &fault->clients[0];
	const struct tenant *tenant = tenant_find(conn->daemon, culprit->uid);
	uint32_t ms = 0;

	if (tenant && fault_is_certain(fault) && may_see_client(conn, culprit))
		ms = quarantine_probation_ms(tenant, culprit->program);
	if (ms == 0)
		return (struct program_state){0};
	return (struct program_state){.left_s = (ms + 999) / 1000,
		.text = quarantine_holds(tenant, culprit->program) ? "quarantined"
								   : "on probation"};
}

/* ---- text */

/* `why': what follows, or "". */
static void reply_fault_client(struct conn *conn, const char *what,
	const struct fault_client *fault_client, const char *why)
{
	const char *colon = why[0] ? ": " : "";
	struct quoted command;

	if (may_see_client(conn, fault_client))
		command_reply(conn, "%-9s %d %s of user %u, group %s%s%s", what, fault_client->pid,
			quote(&command, fault_client->command), fault_client->uid,
			fault_client->group[0] ? fault_client->group : "none", colon, why);
	else
		command_reply(
			conn, "%-9s %d of user %u", what, fault_client->pid, fault_client->uid);
}

/* The nth of those that do not survive, from 0 on; NULL: the fault names it, or there is none. */
static const struct fault_lost *get_lost(const struct fault *fault, unsigned i)
{
	if (i >= fault->n_lost || fault_names(fault, fault->lost[i].client.id))
		return NULL;
	return &fault->lost[i];
}

static void reply_lost(struct conn *conn, const struct fault *fault)
{
	unsigned left = fault_count_lost(fault);

	for (unsigned i = 0; i < FAULT_SUSPECTS_MAX; i++) {
		const struct fault_lost *lost = get_lost(fault, i);

		if (!lost)
			continue;
		reply_fault_client(conn, "Lost", &lost->client, lost->why);
		left--;
	}
	if (left > 0)
		command_reply(conn, "Lost      %u more", left);
}

static void reply_survivors(struct conn *conn, const struct fault *fault)
{
	const unsigned n = MIN(fault->n_survivors, (unsigned)FAULT_SUSPECTS_MAX);

	for (unsigned i = 0; i < n; i++)
		reply_fault_client(conn, "Survivor", &fault->survivors[i],
			fault->survivors[i].has_lost_work ? "continues without its work" : "");
	if (fault->n_survivors > n)
		command_reply(conn, "Survivors %u more", fault->n_survivors - n);
	if (fault->n_survivors > 0)
		command_reply(conn, "They are  in server %d", fault->next_server);
}

static void reply_fault_device(struct conn *conn, const struct fault *fault)
{
	struct quoted name;

	if (fault->has_device)
		command_reply(conn, "Device    %u %s %s", fault->ordinal, fault->uuid,
			quote(&name, fault->device_name));
	else
		command_reply(conn, "Device    not known");
}

static void reply_fault(struct conn *conn, const struct fault *fault)
{
	const struct program_state state = fault_program_state(conn, fault);
	char time[LOG_TIME_MAX], address[ADDRESS_TEXT];
	struct demangled function;
	struct quoted kernel;

	log_format_time(&fault->time, time);
	format_address(fault, address);
	command_reply(conn, "Time      %s", time);
	command_reply(conn, "Result    %s (%u)", fault->result_name, fault->result);
	command_reply(conn, "Server    %d of user %u, %s", fault->server, fault->server_uid,
		fault->server_name);
	reply_fault_device(conn, fault);
	for (unsigned i = 0; i < fault->n; i++)
		reply_fault_client(conn, fault_is_certain(fault) ? "Client" : "Suspect",
			&fault->clients[i], "");
	if (fault->n_suspects > fault->n)
		command_reply(conn, "Suspects  %u more", fault->n_suspects - fault->n);
	command_reply(conn, "Known by  %s", fault_how_text(fault));
	if (fault_kernel(conn, fault)[0])
		command_reply(conn, "Kernel    %s, its last launch",
			quote(&kernel, demangle(&function, fault->kernel)));
	else
		command_reply(conn, "Kernel    not known");
	command_reply(conn, "Address   %s", address);
	reply_lost(conn, fault);
	reply_survivors(conn, fault);
	if (state.text)
		command_reply(conn, "Program   %s for %u s", state.text, state.left_s);
}

/* ---- JSON */

static json_t *fault_client_json(const struct conn *conn, const struct fault_client *fault_client)
{
	bool may_see = may_see_client(conn, fault_client);

	return json_pack("{s:o s:o s:o s:o}", "pid", json_integer(fault_client->pid), "uid",
		json_integer(fault_client->uid), "group",
		json_text_or_null(may_see ? fault_client->group : ""), "command",
		json_text_or_null(may_see ? fault_client->command : ""));
}

/* Those that the fault does not name. */
static json_t *fault_lost_json(const struct conn *conn, const struct fault *fault)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < FAULT_SUSPECTS_MAX; i++) {
		const struct fault_lost *lost = get_lost(fault, i);
		json_t *client = lost ? fault_client_json(conn, &lost->client) : NULL;

		if (!lost)
			continue;
		json_set(&client, "reason",
			json_text_or_null(may_see_client(conn, &lost->client) ? lost->why : ""));
		json_add(&list, client);
	}
	return list;
}

static json_t *survivor_json(const struct conn *conn, const struct fault_client *survivor)
{
	json_t *client = fault_client_json(conn, survivor);

	json_set(&client, "has_lost_work", json_boolean(survivor->has_lost_work));
	return client;
}

static json_t *fault_device_json(const struct fault *fault)
{
	if (!fault->has_device)
		return json_null();
	return json_pack("{s:o s:o s:o s:o}", "ordinal", json_integer(fault->ordinal), "uuid",
		json_text(fault->uuid), "pci", json_text(fault->pci_bus_id), "name",
		json_text(fault->device_name));
}

static json_t *fault_json(const struct conn *conn, const struct fault *fault)
{
	const struct program_state state = fault_program_state(conn, fault);
	char time[LOG_TIME_MAX], address[ADDRESS_TEXT];
	json_t *clients = json_array(), *survivors = json_array();

	log_format_time(&fault->time, time);
	format_address(fault, address);
	for (unsigned i = 0; i < fault->n; i++)
		json_add(&clients, fault_client_json(conn, &fault->clients[i]));
	for (unsigned i = 0; i < MIN(fault->n_survivors, (unsigned)FAULT_SUSPECTS_MAX); i++)
		json_add(&survivors, survivor_json(conn, &fault->survivors[i]));
	return json_pack("{s:s s:o s:o s:o s:s s:o s:o s:b s:o s:o s:s s:o s:s? s:s? s:o s:o s:I "
			 "s:o s:o s:I}",
		"time", time, "result", json_integer(fault->result), "result_name",
		json_text(fault->result_name), "server", json_integer(fault->server), "server_name",
		fault->server_name, "server_uid", json_integer(fault->server_uid), "device",
		fault_device_json(fault), "certain", (int)fault_is_certain(fault),
		fault_is_certain(fault) ? "clients" : "suspects", clients, "n_suspects",
		json_integer(fault->n_suspects), "known_by", fault_how_text(fault), "kernel",
		json_text_or_null(fault_kernel(conn, fault)), "address",
		fault->address ? address : NULL, "program", state.text, "program_s",
		json_number_or_null(state.left_s), "survivors", survivors, "n_survivors",
		(json_int_t)fault->n_survivors, "next_server",
		json_number_or_null((uint64_t)fault->next_server), "lost",
		fault_lost_json(conn, fault), "n_lost", (json_int_t)fault_count_lost(fault));
}

/* ---- the command */

/* An empty list if no fault is known. */
static void reply_faults_as_json(struct conn *conn, unsigned n)
{
	const struct fault *fault;
	json_t *faults = json_array();

	for (unsigned i = 0; i < n; i++) {
		fault = faults_get(conn->daemon, conn->cred.uid, i);
		if (fault)
			json_add(&faults, fault_json(conn, fault));
	}
	scope_reply_json(conn, faults);
}

static void reply_faults(struct conn *conn, unsigned n)
{
	const struct fault *fault = NULL;

	for (unsigned i = 0; i < n; i++) {
		fault = faults_get(conn->daemon, conn->cred.uid, i);
		if (!fault)
			break;
		if (i > 0)
			command_reply(conn, "%s", "");
		reply_fault(conn, fault);
	}
	if (!faults_get(conn->daemon, conn->cred.uid, 0))
		command_reply(conn, "No fault is known");
}

void command_get_last_fault(struct conn *conn, const struct tokens *tokens)
{
	bool is_json = tokens->n > 1 && strcmp(tokens->item[tokens->n - 1], "--json") == 0;
	size_t n_tokens = tokens->n - is_json;
	uint64_t n = 1;

	if (n_tokens > 2 ||
		(n_tokens == 2 && (parse_number(tokens->item[1], FAULTS_MAX, &n) < 0 || n == 0))) {
		command_fail(conn,
			"Usage: get_last_fault [N] [--json]: N is a number of faults from 1 to %d",
			FAULTS_MAX);
		return;
	}
	if (is_json)
		reply_faults_as_json(conn, (unsigned)n);
	else
		reply_faults(conn, (unsigned)n);
}
