/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The last GPU faults. Loop thread.
 *
 * Invariant: a server has at most one record, which names only clients that
 * the server had when it first reported the fault.
 */

#include "faults.h"

#include <string.h>

#include "kernel_log.h"
#include "quote.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/quarantine.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/state/tenant_log.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"

/*
 * The longest time between the line in the kernel's log and the server's
 * report, in either order.
 */
#define XID_MS 1000

static struct fault *find_fault(struct daemon *daemon, const struct server *server)
{
	struct fault *fault = &daemon->faults.list[server->fault % FAULTS_MAX];

	return server->fault > 0 && fault->serial == server->fault ? fault : NULL;
}

/* ---- reports of servers */

static bool is_fault_well_formed(const struct frame_fault *frame)
{
	unsigned n = 0;

	while (n < FAULT_SUSPECTS_MAX && frame->clients[n] != 0)
		n++;
	for (unsigned i = n; i < FAULT_SUSPECTS_MAX; i++)
		if (frame->clients[i] != 0)
			return false;
	return frame->result != 0 && frame->how >= FAULT_SUSPECTS && frame->how <= FAULT_HOW_MAX &&
	       frame->n_suspects >= n && frame->n_suspects <= SESSIONS_MAX &&
	       (frame->how == FAULT_SUSPECTS || (n == 1 && frame->n_suspects == 1)) &&
	       frame_text_ok(frame->result_name, sizeof(frame->result_name)) &&
	       frame_text_ok(frame->kernel, sizeof(frame->kernel));
}

static void describe_client(
	struct fault_client *fault_client, const struct client *client, const struct groups *groups)
{
	const struct group *group = groups_get(groups, client->group);

	*fault_client = (struct fault_client){
		.id = client->id,
		.pid = client->pid,
		.uid = client->uid,
		.program = client->program,
		.has_lost_work = client->has_lost_work,
	};
	memcpy(fault_client->command, client->command, sizeof(fault_client->command));
	if (group)
		memcpy(fault_client->group, group->name, sizeof(fault_client->group));
}

static bool is_user_affected(const struct fault *fault, uid_t uid)
{
	for (unsigned i = 0; i < fault->n_affected; i++)
		if (fault->affected[i] == uid)
			return true;
	return false;
}

/* Without memory the affected users do not see the fault; root does. */
static void note_affected_users(struct fault *fault, const struct server *server)
{
	fault->affected = calloc(server->n_clients + 1, sizeof(*fault->affected));
	list_each (struct client, client, &server->clients, link) {
		uid_t uid = client->uid;

		if (fault->affected && !is_user_affected(fault, uid))
			fault->affected[fault->n_affected++] = uid;
	}
}

/* Reduces the suspects to the client that caused the fault, if the server had that client. */
static void fault_set_client(struct fault *fault, uint64_t id)
{
	for (unsigned i = 0; i < fault->n; i++)
		if (fault->clients[i].id == id) {
			fault->clients[0] = fault->clients[i];
			fault->n = fault->n_suspects = 1;
			return;
		}
}

static void fault_set_device(struct fault *fault, const struct server *server, uint32_t ordinal)
{
	const struct frame_device *device;

	if (ordinal >= server->devices.n)
		return;
	device = &server->devices.items[ordinal];
	fault->has_device = true;
	fault->ordinal = ordinal;
	device_uuid_text(device, fault->uuid);
	memcpy(fault->pci_bus_id, device->pci_bus_id, sizeof(fault->pci_bus_id));
	memcpy(fault->device_name, device->name, sizeof(fault->device_name));
}

static struct fault *fault_new(struct server *server, const struct frame_fault *frame)
{
	struct faults *faults = &server->daemon->faults;
	struct fault *fault = &faults->list[++faults->last % FAULTS_MAX];

	free(fault->affected);
	*fault = (struct fault){
		.serial = faults->last,
		.server = server->pid,
		.server_uid = server->tenant->uid,
		.how = FAULT_SUSPECTS,
		.n_suspects = frame->n_suspects,
	};
	slot_name(server->slot, fault->server_name);
	clock_gettime(CLOCK_REALTIME, &fault->time);
	for (unsigned i = 0; i < FAULT_SUSPECTS_MAX; i++) {
		const struct client *client = clients_find(server, frame->clients[i]);

		if (client)
			describe_client(
				&fault->clients[fault->n++], client, &server->daemon->groups);
	}
	note_affected_users(fault, server);
	server->fault = fault->serial;
	return fault;
}

const char *fault_how_text(const struct fault *fault)
{
	static const char *const texts[] = {
		[FAULT_SUSPECTS] = "they had work on the GPU",
		[FAULT_ALONE] = "no other client had work on the GPU",
		[FAULT_ADDRESS] = "its memory is around the address of the fault",
		[FAULT_OVERDUE] = "its work continued after its end",
	};

	return texts[fault->how];
}

static void log_faulting_client(struct server *server, const struct fault *fault)
{
	const struct fault_client *fault_client = &fault->clients[0];
	const struct log_subject about = {.server = server->pid,
		.client = fault_client->pid,
		.has_uid = true,
		.uid = fault_client->uid,
		.priority = JOURNAL_ERROR};
	struct quoted command;

	tenant_log(server->tenant, &about,
		"Client %d of user %u, %s, group %s, has caused the GPU fault %s (%u) of server "
		"%d: %s",
		fault_client->pid, fault_client->uid, quote(&command, fault_client->command),
		fault_client->group[0] ? fault_client->group : "none", fault->result_name,
		fault->result, fault->server, fault_how_text(fault));
}

static void log_fault_suspects(struct server *server, const struct fault *fault)
{
	const struct log_subject about = {.server = server->pid,
		.has_uid = true,
		.uid = server->tenant->uid,
		.priority = JOURNAL_ERROR};

	tenant_log(server->tenant, &about,
		"One of %u clients has caused the GPU fault %s (%u) of server %d: get_last_fault "
		"lists those that had work on the GPU",
		fault->n_suspects, fault->result_name, fault->result, fault->server);
}

static void fault_become_certain(struct server *server, struct fault *fault, uint32_t how)
{
	struct tenant *tenant = tenant_get(server->daemon, fault->clients[0].uid, -EBADF);

	fault->how = how;
	log_faulting_client(server, fault);
	/* FRAME_SERVER_STATE has named the client if it was known from the beginning. */
	if (!server->has_faulting_client && tenant)
		quarantine_note_fault(tenant, fault->clients[0].program);
	server->has_faulting_client = true;
}

int faults_on_frame(struct server *server, const struct frame_fault *frame)
{
	struct fault *fault = find_fault(server->daemon, server);
	bool is_new = !fault;

	if (!is_fault_well_formed(frame))
		return -EBADMSG;
	if (is_new)
		fault = fault_new(server, frame);
	fault->result = frame->result;
	memcpy(fault->result_name, frame->result_name, sizeof(fault->result_name));
	memcpy(fault->kernel, frame->kernel, sizeof(fault->kernel));
	if (frame->address != 0)
		fault->address = frame->address;
	fault_set_device(fault, server, frame->ordinal);
	if (frame->how != FAULT_SUSPECTS && !fault_is_certain(fault)) {
		fault_set_client(fault, frame->clients[0]);
		if (fault->n == 1 && fault->n_suspects == 1)
			fault_become_certain(server, fault, frame->how);
	} else if (is_new) {
		log_fault_suspects(server, fault);
	}
	return 0;
}

/* ---- clients that the fault costs something */

static bool is_printable(const char *text)
{
	while (*text >= ' ' && *text <= '~')
		text++;
	return *text == '\0';
}

/* The position in `clients'; as many as these are: it is not there. */
static unsigned find_named(const struct fault *fault, uint64_t id)
{
	unsigned i = 0;

	while (i < fault->n && fault->clients[i].id != id)
		i++;
	return i;
}

bool fault_names(const struct fault *fault, uint64_t id)
{
	return find_named(fault, id) < fault->n;
}

unsigned fault_count_lost(const struct fault *fault)
{
	unsigned n = fault->n_lost;

	for (unsigned i = 0; i < fault->n; i++)
		n -= fault->clients[i].is_victim;
	return n;
}

int faults_on_lost_client(struct server *server, const struct frame_fault_client *frame)
{
	struct fault *fault = find_fault(server->daemon, server);
	struct client *client = clients_find(server, frame->client);
	struct fault_lost *lost;
	unsigned named;

	if (!frame_text_ok(frame->why, sizeof(frame->why)) || frame->goes_on > 1 ||
		frame->reserved != 0 || (!frame->why[0]) != (frame->goes_on == 1) ||
		!is_printable(frame->why))
		return -EBADMSG;
	/* The first reason holds, so that a server cannot count a client twice. */
	if (!fault || !client || client->is_victim)
		return 0;
	client->has_lost_work = frame->goes_on;
	if (frame->goes_on)
		return 0;
	client->is_victim = true;
	named = find_named(fault, client->id);
	if (named < fault->n)
		fault->clients[named].is_victim = true;
	if (fault->n_lost < FAULT_SUSPECTS_MAX) {
		lost = &fault->lost[fault->n_lost];
		describe_client(&lost->client, client, &server->daemon->groups);
		memcpy(lost->why, frame->why, sizeof(lost->why));
	}
	fault->n_lost++;
	return 0;
}

/* ---- the kernel's log */

static uint32_t find_xid_device(const struct server *server, const struct xid *xid)
{
	for (unsigned i = 0; i < server->devices.n; i++)
		if (xid_is_of(xid, server->devices.items[i].pci_bus_id))
			return i;
	return FAULT_DEVICE_UNKNOWN;
}

/*
 * Matches by PID. If the log has no PID, or one of another PID namespace,
 * matches by GPU, provided that the line names a server's process or none, and
 * that the fault is recent: a server that only claims a fault must not take
 * the lines about later faults of others.
 */
static bool xid_concerns_server(const struct server *server, const struct xid *xid)
{
	if (xid->pid == server->pid)
		return true;
	if (server_find(server->daemon, xid->pid) || (xid->pid != 0 && !xid->is_server) ||
		uv_now(&server->daemon->loop) - server->fault_ms >= XID_MS)
		return false;
	return find_xid_device(server, xid) != FAULT_DEVICE_UNKNOWN;
}

/*
 * Sends nothing to a server that has stopped reading for the sake of a client
 * in flight: that client has to find the next server.
 */
static void faults_send_address(struct server *server)
{
	struct fault_address *known = &server->fault_address;
	const struct frame_fault_address frame = {
		.head = frame_head(FRAME_FAULT_ADDRESS, 0),
		.address = known->address,
		.ordinal = known->ordinal,
	};

	if (known->is_known && !known->is_sent && server->conn && !server->in_flight)
		known->is_sent = conn_send(server->conn, &frame, -EBADF) == 0;
}

static void note_fault_address(struct server *server, uint64_t address, uint32_t ordinal)
{
	struct fault_address *known = &server->fault_address;

	if (!known->is_known)
		*known = (struct fault_address){
			.is_known = true, .address = address, .ordinal = ordinal};
	faults_send_address(server);
}

/*
 * A line without an address (XID_EXCEPTION) says that there is none, unless the fault has one: the
 * line with it may come later.
 */
static void fault_take_xid(struct server *server, const struct xid *xid)
{
	struct fault *fault = find_fault(server->daemon, server);
	uint32_t ordinal = find_xid_device(server, xid);

	if (xid->address == 0 && server->has_address_fault)
		return;
	/* Stored here, as the server may end before it can report the address. */
	if (fault && fault->address == 0) {
		fault->address = xid->address;
		fault_set_device(fault, server, ordinal);
	}
	note_fault_address(server, xid->address, ordinal);
}

bool faults_on_xid(struct daemon *daemon, const struct xid *xid)
{
	list_each (struct server, server, &daemon->servers, link_in_daemon) {
		if (server->state == SERVER_FAULT && xid_concerns_server(server, xid)) {
			fault_take_xid(server, xid);
			return true;
		}
	}
	return false;
}

/* Takes the line that came before the server's report, if there is one. */
static bool take_seen(struct server *server, struct seen_xid *seen, unsigned n)
{
	uint64_t now_ms = uv_now(&server->daemon->loop);

	for (unsigned i = 0; i < n; i++)
		if (seen[i].ms > 0 && now_ms - seen[i].ms < XID_MS &&
			xid_concerns_server(server, &seen[i].xid)) {
			fault_take_xid(server, &seen[i].xid);
			seen[i].ms = 0;
			return true;
		}
	return false;
}

void faults_on_state(struct server *server)
{
	struct kernel_log *log = server->daemon->kernel_log;

	if (!log)
		note_fault_address(server, 0, FAULT_DEVICE_UNKNOWN);
	else if (!take_seen(server, log->seen, XIDS_KEPT))
		take_seen(server, log->seen_plain, XIDS_KEPT);
}

/* ---- queries */

static bool may_know_fault(const struct daemon *daemon, const struct fault *fault, uid_t uid)
{
	return daemon_trusts(daemon, uid) || fault->server_uid == uid ||
	       is_user_affected(fault, uid);
}

const struct fault *faults_get(const struct daemon *daemon, uid_t uid, unsigned nth)
{
	const struct faults *faults = &daemon->faults;

	for (uint64_t i = 0; i < FAULTS_MAX && i < faults->last; i++) {
		const struct fault *fault = &faults->list[(faults->last - i) % FAULTS_MAX];

		if (may_know_fault(daemon, fault, uid) && nth-- == 0)
			return fault;
	}
	return NULL;
}

void faults_fini(struct faults *faults)
{
	for (size_t i = 0; i < FAULTS_MAX; i++)
		free(TAKE_PTR(faults->list[i].affected));
}

/* Its clients that go on in another server have survived. */
static void note_survivors(struct server *server, const struct server *successor)
{
	struct fault *fault = find_fault(server->daemon, server);

	if (!fault)
		return;
	fault->next_server = successor->pid;
	list_each (struct client, client, &server->clients, link) {
		if (!client->is_moving)
			continue;
		if (fault->n_survivors < FAULT_SUSPECTS_MAX)
			describe_client(&fault->survivors[fault->n_survivors], client,
				&server->daemon->groups);
		client->has_lost_work = false;
		fault->n_survivors++;
	}
}

const struct server_watch faults_watch = {
	.on_writable = faults_send_address, .on_move = note_survivors};
