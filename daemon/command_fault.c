/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command get_last_fault. Loop thread.
 *
 * Invariant: what a user's programs, groups and kernels are called no other
 * user is told but root and the daemon's.
 */

#include "command_fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command_scope.h"
#include "command_conn.h"
#include "daemon.h"
#include "faults.h"
#include "json.h"
#include "conn.h"
#include "quote.h"
#include "tokenize.h"

#define ADDRESS_TEXT 24

static bool may_see(const struct peer *peer, const struct faulter *faulter)
{
	return daemon_trusts(peer->daemon, peer->cred.uid) || faulter->uid == peer->cred.uid;
}

/* The kernel of the one who has caused it, or "". */
static const char *kernel_of(const struct peer *peer, const struct fault *fault)
{
	return fault_is_certain(fault) && may_see(peer, &fault->clients[0]) ? fault->kernel : "";
}

static void address_text(const struct fault *fault, char text[ADDRESS_TEXT])
{
	if (fault->address)
		snprintf(text, ADDRESS_TEXT, "0x%" PRIx64, fault->address);
	else
		snprintf(text, ADDRESS_TEXT, "not known");
}

/* ---- for people */

static void reply_client(
	struct peer *peer, const struct fault *fault, const struct faulter *faulter)
{
	struct quoted command;
	const char *what = fault_is_certain(fault) ? "Client" : "Suspect";

	if (may_see(peer, faulter))
		commander_reply(peer, "%-9s %d %s of user %u, group %s", what, faulter->pid,
			quote(&command, faulter->command), faulter->uid,
			faulter->group[0] ? faulter->group : "none");
	else
		commander_reply(peer, "%-9s %d of user %u", what, faulter->pid, faulter->uid);
}

static void reply_device(struct peer *peer, const struct fault *fault)
{
	struct quoted name;

	if (fault->has_device)
		commander_reply(peer, "Device    %u %s %s", fault->ordinal, fault->uuid,
			quote(&name, fault->device_name));
	else
		commander_reply(peer, "Device    not known");
}

static void reply_text(struct peer *peer, const struct fault *fault)
{
	char time[JOURNAL_STAMP], address[ADDRESS_TEXT];
	struct quoted kernel;

	journal_stamp(&fault->time, time);
	address_text(fault, address);
	commander_reply(peer, "Time      %s", time);
	commander_reply(peer, "Result    %s (%u)", fault->result_name, fault->result);
	commander_reply(peer, "Server    %d of user %u", fault->server, fault->server_uid);
	reply_device(peer, fault);
	for (unsigned i = 0; i < fault->n; i++)
		reply_client(peer, fault, &fault->clients[i]);
	if (fault->n_suspects > fault->n)
		commander_reply(peer, "Suspects  %u more", fault->n_suspects - fault->n);
	commander_reply(peer, "Known by  %s", fault_how_text(fault));
	if (kernel_of(peer, fault)[0])
		commander_reply(
			peer, "Kernel    %s, its last launch", quote(&kernel, fault->kernel));
	else
		commander_reply(peer, "Kernel    not known");
	commander_reply(peer, "Address   %s", address);
}

/* ---- for programs */

static void add_text(struct json *json, const char *name, const char *text)
{
	if (text[0])
		json_string(json, name, text);
	else
		json_null(json, name);
}

static void add_client(struct json *json, const struct peer *peer, const struct faulter *faulter)
{
	json_open(json, NULL, '{');
	json_number(json, "pid", faulter->pid);
	json_number(json, "uid", faulter->uid);
	add_text(json, "group", may_see(peer, faulter) ? faulter->group : "");
	add_text(json, "command", may_see(peer, faulter) ? faulter->command : "");
	json_close(json, '}');
}

static void add_device(struct json *json, const struct fault *fault)
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

static void add_fault(struct json *json, const struct peer *peer, const struct fault *fault)
{
	char time[JOURNAL_STAMP], address[ADDRESS_TEXT];

	journal_stamp(&fault->time, time);
	address_text(fault, address);
	json_open(json, NULL, '{');
	json_string(json, "time", time);
	json_number(json, "result", fault->result);
	json_string(json, "result_name", fault->result_name);
	json_number(json, "server", fault->server);
	json_number(json, "server_uid", fault->server_uid);
	add_device(json, fault);
	json_bool(json, "certain", fault_is_certain(fault));
	json_open(json, fault_is_certain(fault) ? "clients" : "suspects", '[');
	for (unsigned i = 0; i < fault->n; i++)
		add_client(json, peer, &fault->clients[i]);
	json_close(json, ']');
	json_number(json, "n_suspects", fault->n_suspects);
	json_string(json, "known_by", fault_how_text(fault));
	add_text(json, "kernel", kernel_of(peer, fault));
	add_text(json, "address", fault->address ? address : "");
	json_close(json, '}');
}

/* ---- the command */

/* Where no fault is known, an empty list. */
static void reply_json(struct peer *peer, unsigned n)
{
	const struct fault *fault;
	struct json json = {0};

	json_open(&json, NULL, '[');
	for (unsigned i = 0; i < n; i++) {
		fault = faults_get(peer->daemon, peer->cred.uid, i);
		if (fault)
			add_fault(&json, peer, fault);
	}
	json_close(&json, ']');
	scope_reply_json(peer, &json);
}

static void reply_texts(struct peer *peer, unsigned n)
{
	const struct fault *fault = NULL;

	for (unsigned i = 0; i < n; i++) {
		fault = faults_get(peer->daemon, peer->cred.uid, i);
		if (!fault)
			break;
		if (i > 0)
			commander_reply(peer, "%s", "");
		reply_text(peer, fault);
	}
	if (!faults_get(peer->daemon, peer->cred.uid, 0))
		commander_reply(peer, "No fault is known");
}

void command_get_last_fault(struct peer *peer, const struct words *words)
{
	bool is_json = words->n > 1 && strcmp(words->word[words->n - 1], "--json") == 0;
	size_t n_words = words->n - is_json;
	uint64_t n = 1;

	if (n_words > 2 ||
		(n_words == 2 && (parse_number(words->word[1], FAULTS_MAX, &n) < 0 || n == 0))) {
		commander_fail(peer,
			"Usage: get_last_fault [N] [--json], where N is a number of faults from 1 "
			"to %d",
			FAULTS_MAX);
		return;
	}
	if (is_json)
		reply_json(peer, (unsigned)n);
	else
		reply_texts(peer, (unsigned)n);
}
