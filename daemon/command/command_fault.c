/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command get_last_fault. Loop thread.
 *
 * Invariant: only the user itself, root and the daemon's user see the names of
 * a user's programs, groups and kernels.
 */

#include "command_fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command_reply.h"
#include "command_scope.h"
#include "quote.h"
#include "daemon/text/json.h"
#include "daemon/text/tokenize.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"
#include "daemon/watch/faults.h"

#define ADDRESS_TEXT 24

static bool may_see_client(const struct conn *conn, const struct fault_client *fault_client)
{
	return daemon_trusts(conn->daemon, conn->cred.uid) || fault_client->uid == conn->cred.uid;
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

/* ---- text */

static void reply_fault_client(
	struct conn *conn, const struct fault *fault, const struct fault_client *fault_client)
{
	struct quoted command;
	const char *what = fault_is_certain(fault) ? "Client" : "Suspect";

	if (may_see_client(conn, fault_client))
		command_reply(conn, "%-9s %d %s of user %u, group %s", what, fault_client->pid,
			quote(&command, fault_client->command), fault_client->uid,
			fault_client->group[0] ? fault_client->group : "none");
	else
		command_reply(
			conn, "%-9s %d of user %u", what, fault_client->pid, fault_client->uid);
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
	char time[LOG_TIME_MAX], address[ADDRESS_TEXT];
	struct quoted kernel;

	log_format_time(&fault->time, time);
	format_address(fault, address);
	command_reply(conn, "Time      %s", time);
	command_reply(conn, "Result    %s (%u)", fault->result_name, fault->result);
	command_reply(conn, "Server    %d of user %u", fault->server, fault->server_uid);
	reply_fault_device(conn, fault);
	for (unsigned i = 0; i < fault->n; i++)
		reply_fault_client(conn, fault, &fault->clients[i]);
	if (fault->n_suspects > fault->n)
		command_reply(conn, "Suspects  %u more", fault->n_suspects - fault->n);
	command_reply(conn, "Known by  %s", fault_how_text(fault));
	if (fault_kernel(conn, fault)[0])
		command_reply(conn, "Kernel    %s, its last launch", quote(&kernel, fault->kernel));
	else
		command_reply(conn, "Kernel    not known");
	command_reply(conn, "Address   %s", address);
}

/* ---- JSON */

static void add_text_or_null(struct json *json, const char *name, const char *text)
{
	if (text[0])
		json_string(json, name, text);
	else
		json_null(json, name);
}

static void add_fault_client(
	struct json *json, const struct conn *conn, const struct fault_client *fault_client)
{
	json_open(json, NULL, '{');
	json_number(json, "pid", fault_client->pid);
	json_number(json, "uid", fault_client->uid);
	add_text_or_null(
		json, "group", may_see_client(conn, fault_client) ? fault_client->group : "");
	add_text_or_null(
		json, "command", may_see_client(conn, fault_client) ? fault_client->command : "");
	json_close(json, '}');
}

static void add_fault_device(struct json *json, const struct fault *fault)
{
	if (!fault->has_device) {
		json_null(json, "device");
		return;
	}
	json_open(json, "device", '{');
	json_number(json, "ordinal", fault->ordinal);
	json_string(json, "uuid", fault->uuid);
	json_string(json, "pci", fault->pci_bus_id);
	json_string(json, "name", fault->device_name);
	json_close(json, '}');
}

static void add_fault(struct json *json, const struct conn *conn, const struct fault *fault)
{
	char time[LOG_TIME_MAX], address[ADDRESS_TEXT];

	log_format_time(&fault->time, time);
	format_address(fault, address);
	json_open(json, NULL, '{');
	json_string(json, "time", time);
	json_number(json, "result", fault->result);
	json_string(json, "result_name", fault->result_name);
	json_number(json, "server", fault->server);
	json_number(json, "server_uid", fault->server_uid);
	add_fault_device(json, fault);
	json_bool(json, "certain", fault_is_certain(fault));
	json_open(json, fault_is_certain(fault) ? "clients" : "suspects", '[');
	for (unsigned i = 0; i < fault->n; i++)
		add_fault_client(json, conn, &fault->clients[i]);
	json_close(json, ']');
	json_number(json, "n_suspects", fault->n_suspects);
	json_string(json, "known_by", fault_how_text(fault));
	add_text_or_null(json, "kernel", fault_kernel(conn, fault));
	add_text_or_null(json, "address", fault->address ? address : "");
	json_close(json, '}');
}

/* ---- the command */

/* An empty list if no fault is known. */
static void reply_faults_as_json(struct conn *conn, unsigned n)
{
	const struct fault *fault;
	struct json json = {0};

	json_open(&json, NULL, '[');
	for (unsigned i = 0; i < n; i++) {
		fault = faults_get(conn->daemon, conn->cred.uid, i);
		if (fault)
			add_fault(&json, conn, fault);
	}
	json_close(&json, ']');
	scope_reply_json(conn, &json);
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
