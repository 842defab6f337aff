/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts of servers. Loop thread.
 *
 * Invariant: a start that has to wait is tried again by itself, and those who
 * wait for it have deadlines of their own.
 */

#include <string.h>

#include "cuda.h"
#include "daemon.h"
#include "allowances.h"
#include "server.h"
#include "start.h"
#include "tenant.h"

unsigned start_count_restarts(struct tenant *tenant)
{
	uint64_t now = uv_now(&tenant->daemon->loop);
	unsigned n_old = 0;

	while (n_old < tenant->n_restarts && now - tenant->restarts_ms[n_old] >= RESTARTS_WINDOW_MS)
		n_old++;
	tenant->n_restarts -= n_old;
	memmove(tenant->restarts_ms, tenant->restarts_ms + n_old,
		tenant->n_restarts * sizeof(tenant->restarts_ms[0]));
	return tenant->n_restarts;
}

/* Seconds until a restart is forgotten, and another is possible. */
static unsigned restart_wait_s(const struct tenant *tenant)
{
	uint64_t passed = uv_now(&tenant->daemon->loop) - tenant->restarts_ms[0];

	return (unsigned)((RESTARTS_WINDOW_MS - passed) / 1000 + 1);
}

/* After a bad end another start is a restart, and those are counted. */
static bool check_restarts(struct tenant *tenant)
{
	struct reason reason;

	if (!tenant->has_failed || start_count_restarts(tenant) < RESTARTS_MAX)
		return true;
	reason_set(&reason, 0,
		"The server of UID %u was restarted %d times within %d s: wait %u s and start the "
		"program again. %s",
		tenant->uid, RESTARTS_MAX, RESTARTS_WINDOW_MS / 1000, restart_wait_s(tenant),
		tenant->reason.text);
	tenant_refuse_all(tenant, CUDA_ERROR_MPS_CONNECTION_FAILED, &reason);
	return false;
}

/* ---- programs that fault */

static uint64_t since_ms(const struct tenant *tenant, const struct faulty *faulty)
{
	return uv_now(&tenant->daemon->loop) - faulty->last_ms;
}

/* The program's entry, or the one that is of least use. */
static struct faulty *find_entry(struct tenant *tenant, uint32_t program)
{
	struct faulty *oldest = &tenant->faulty[0];

	for (size_t i = 0; i < ARRAY_SIZE(tenant->faulty); i++) {
		if (tenant->faulty[i].n_faults > 0 && tenant->faulty[i].program == program)
			return &tenant->faulty[i];
		if (tenant->faulty[i].last_ms < oldest->last_ms)
			oldest = &tenant->faulty[i];
	}
	*oldest = (struct faulty){.program = program};
	return oldest;
}

void start_note_fault(struct tenant *tenant, uint32_t program)
{
	struct faulty *faulty = find_entry(tenant, program);

	if (since_ms(tenant, faulty) >= FAULT_MEMORY_MS)
		faulty->n_faults = 0;
	faulty->n_faults++;
	faulty->last_ms = uv_now(&tenant->daemon->loop);
}

uint64_t start_wait_ms(const struct tenant *tenant, uint32_t program)
{
	for (size_t i = 0; i < ARRAY_SIZE(tenant->faulty); i++) {
		const struct faulty *faulty = &tenant->faulty[i];
		uint64_t wait_ms = FAULT_WAIT_MS << MIN(faulty->n_faults, 8u) >> 1;
		uint64_t passed_ms = since_ms(tenant, faulty);

		wait_ms = MIN(wait_ms, (uint64_t)FAULT_WAIT_MAX_MS);
		if (faulty->n_faults > 0 && faulty->program == program)
			return passed_ms < wait_ms ? wait_ms - passed_ms : 0;
	}
	return 0;
}

bool start_forgot_faults(const struct tenant *tenant)
{
	for (size_t i = 0; i < ARRAY_SIZE(tenant->faulty); i++)
		if (tenant->faulty[i].n_faults > 0 &&
			since_ms(tenant, &tenant->faulty[i]) < FAULT_MEMORY_MS)
			return false;
	return true;
}

/* ---- room and rate */

/* The server of a guest that has been without clients for longest. */
static struct server *find_idle(const struct daemon *daemon)
{
	struct server *found = NULL;

	list_for_each (item, &daemon->tenants) {
		const struct tenant *tenant = container_of(item, struct tenant, link);
		struct server *server = tenant->server;

		if (!server || daemon_trusts(daemon, tenant->uid) || tenant_is_waiting(tenant) ||
			!server_is_idle(server))
			continue;
		if (!found || server->idle_ms < found->idle_ms)
			found = server;
	}
	return found;
}

static bool is_one_ending(const struct daemon *daemon)
{
	list_for_each (item, &daemon->tenants) {
		const struct server *server = container_of(item, struct tenant, link)->server;

		if (server && server->state == SERVER_STOPPING && server->n_clients == 0)
			return true;
	}
	return false;
}

static void refuse_for_room(struct tenant *tenant)
{
	struct reason reason;

	reason_set(&reason, 0,
		"The MPS daemon has %u servers with clients and can have no more: wait until other "
		"users' programs have ended, or set MPS_SERVERS_MAX where the daemon is started",
		tenant->daemon->n_servers);
	tenant_refuse_all(tenant, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, &reason);
}

static bool has_room(const struct tenant *tenant)
{
	const struct daemon *daemon = tenant->daemon;
	unsigned n_max = daemon->config.servers_max;

	if (daemon_trusts(daemon, tenant->uid))
		return daemon->n_servers < n_max;
	/* The only one there may be is not kept free. */
	return daemon->n_guest_servers + (n_max > 1 ? RESERVED_SERVERS : 0) < n_max;
}

/* One server more than there may be: another one makes room if it can, and has to end first. */
static bool make_room(struct tenant *tenant)
{
	struct daemon *daemon = tenant->daemon;
	struct server *idle;

	if (has_room(tenant))
		return true;
	if (is_one_ending(daemon))
		return false;
	idle = find_idle(daemon);
	if (!idle) {
		refuse_for_room(tenant);
		return false;
	}
	journal_control(&daemon->journal,
		"Server %d of user %u has no clients and makes room for user %u's", idle->pid,
		idle->tenant->uid, tenant->uid);
	server_shutdown(idle, false);
	return false;
}

static bool check_rate(struct tenant *tenant)
{
	struct daemon *daemon = tenant->daemon;
	uint64_t now = uv_now(&daemon->loop);

	if (daemon_trusts(daemon, tenant->uid))
		return true;
	if (bucket_left(&tenant->starts, now, STARTS_MAX, STARTS_PER_S) == 0 ||
		bucket_left(&daemon->guest_starts, now, ALL_STARTS_MAX, ALL_STARTS_PER_S) == 0) {
		daemon_retry_soon(daemon);
		return false;
	}
	bucket_take(&tenant->starts, now, STARTS_MAX, STARTS_PER_S);
	bucket_take(&daemon->guest_starts, now, ALL_STARTS_MAX, ALL_STARTS_PER_S);
	return true;
}

void start_server_for(struct tenant *tenant)
{
	struct daemon *daemon = tenant->daemon;
	struct reason why;

	if (!check_restarts(tenant) || !make_room(tenant) || !check_rate(tenant))
		return;
	if (tenant->has_failed)
		tenant->restarts_ms[tenant->n_restarts++] = uv_now(&daemon->loop);
	if (server_start(tenant, &why) == 0)
		return;
	journal_control(&daemon->journal, "No server for user %u: %s", tenant->uid, why.text);
	tenant_refuse_all(tenant, CUDA_ERROR_MPS_CONNECTION_FAILED, &why);
}
