/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The last GPU faults. Loop thread.
 *
 * Invariant: a server has one record at most, and names none but clients that
 * it had when it told of the fault first.
 */

#include <string.h>

#include "clients.h"
#include "daemon.h"
#include "faults.h"
#include "groups.h"
#include "server_conn.h"
#include "conn.h"
#include "quarantine.h"
#include "quote.h"
#include "server.h"
#include "tenant.h"
#include "tenant_log.h"

/* Between the line in the kernel's log and a server's word, in either order. */
#define XID_MS 1000

static struct fault *find(struct daemon *daemon, const struct server *server)
{
	struct fault *fault = &daemon->faults.list[server->fault % FAULTS_MAX];

	return server->fault > 0 && fault->serial == server->fault ? fault : NULL;
}

/* ---- what a server says */

static bool is_well_formed(const struct frame_fault *frame)
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

static void add_client(
	struct fault *fault, const struct client *client, const struct groups *groups)
{
	const struct group *group = groups_get(groups, client->group);
	struct faulter *faulter = &fault->clients[fault->n++];

	*faulter = (struct faulter){
		.id = client->id,
		.pid = client->pid,
		.uid = client->uid,
		.program = client->program,
	};
	memcpy(faulter->command, client->command, sizeof(faulter->command));
	if (group)
		memcpy(faulter->group, group->name, sizeof(faulter->group));
}

static bool is_hurt(const struct fault *fault, uid_t uid)
{
	for (unsigned i = 0; i < fault->n_hurt; i++)
		if (fault->hurt[i] == uid)
			return true;
	return false;
}

/* Without memory its users are not told; root is. */
static void note_hurt(struct fault *fault, const struct server *server)
{
	fault->hurt = calloc(server->n_clients + 1, sizeof(*fault->hurt));
	list_for_each (item, &server->clients) {
		uid_t uid = container_of(item, struct client, link)->uid;

		if (fault->hurt && !is_hurt(fault, uid))
			fault->hurt[fault->n_hurt++] = uid;
	}
}

/* The one that it certainly was, if the server had such a client. */
static void settle(struct fault *fault, uint64_t id)
{
	for (unsigned i = 0; i < fault->n; i++)
		if (fault->clients[i].id == id) {
			fault->clients[0] = fault->clients[i];
			fault->n = fault->n_suspects = 1;
			return;
		}
}

static void set_device(struct fault *fault, const struct server *server, uint32_t ordinal)
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

	free(fault->hurt);
	*fault = (struct fault){
		.serial = faults->last,
		.server = server->pid,
		.server_uid = server->tenant->uid,
		.how = FAULT_SUSPECTS,
		.n_suspects = frame->n_suspects,
	};
	clock_gettime(CLOCK_REALTIME, &fault->time);
	for (unsigned i = 0; i < FAULT_SUSPECTS_MAX; i++) {
		const struct client *client = clients_find(server, frame->clients[i]);

		if (client)
			add_client(fault, client, &server->daemon->groups);
	}
	note_hurt(fault, server);
	server->fault = fault->serial;
	return fault;
}

const char *fault_how_text(const struct fault *fault)
{
	static const char *const texts[] = {
		[FAULT_SUSPECTS] = "they had work on the GPU",
		[FAULT_ALONE] = "no other client had work on the GPU",
		[FAULT_ADDRESS] = "its memory is around the address of the fault",
		[FAULT_OVERDUE] = "its work went on after its end",
	};

	return texts[fault->how];
}

static void log_culprit(struct server *server, const struct fault *fault)
{
	const struct faulter *faulter = &fault->clients[0];
	const struct journal_about about = {.server = server->pid,
		.client = faulter->pid,
		.has_uid = true,
		.uid = faulter->uid,
		.priority = JOURNAL_ERROR};
	struct quoted command;

	tenant_log(server->tenant, &about,
		"Client %d of user %u, %s, group %s, has caused the GPU fault %s (%u) of server "
		"%d: %s",
		faulter->pid, faulter->uid, quote(&command, faulter->command),
		faulter->group[0] ? faulter->group : "none", fault->result_name, fault->result,
		fault->server, fault_how_text(fault));
}

static void log_suspects(struct server *server, const struct fault *fault)
{
	const struct journal_about about = {.server = server->pid,
		.has_uid = true,
		.uid = server->tenant->uid,
		.priority = JOURNAL_ERROR};

	tenant_log(server->tenant, &about,
		"One of %u clients has caused the GPU fault %s (%u) of server %d: get_last_fault "
		"lists those that had work on the GPU",
		fault->n_suspects, fault->result_name, fault->result, fault->server);
}

static void become_certain(struct server *server, struct fault *fault, uint32_t how)
{
	struct tenant *tenant = tenant_get(server->daemon, fault->clients[0].uid);

	fault->how = how;
	log_culprit(server, fault);
	/* FRAME_SERVER_STATE has named it, if it was known from the beginning. */
	if (!server->has_culprit && tenant)
		quarantine_note_fault(tenant, fault->clients[0].program);
	server->has_culprit = true;
}

int faults_on_frame(struct server *server, const struct frame_fault *frame)
{
	struct fault *fault = find(server->daemon, server);
	bool is_new = !fault;

	if (!is_well_formed(frame))
		return -EBADMSG;
	if (is_new)
		fault = fault_new(server, frame);
	fault->result = frame->result;
	memcpy(fault->result_name, frame->result_name, sizeof(fault->result_name));
	memcpy(fault->kernel, frame->kernel, sizeof(fault->kernel));
	if (frame->address != 0)
		fault->address = frame->address;
	set_device(fault, server, frame->ordinal);
	if (frame->how != FAULT_SUSPECTS && !fault_is_certain(fault)) {
		settle(fault, frame->clients[0]);
		if (fault->n == 1 && fault->n_suspects == 1)
			become_certain(server, fault, frame->how);
	} else if (is_new) {
		log_suspects(server, fault);
	}
	return 0;
}

/* ---- the kernel's log */

static uint32_t find_device(const struct server *server, const struct xid *xid)
{
	for (unsigned i = 0; i < server->devices.n; i++)
		if (xid_is_of(xid, server->devices.items[i].pci_bus_id))
			return i;
	return FAULT_DEVICE_UNKNOWN;
}

/*
 * By PID; where the log has none, or that of another PID namespace, by GPU if
 * it names a server's process or none.
 */
static bool concerns(const struct server *server, const struct xid *xid)
{
	if (xid->pid == server->pid)
		return true;
	if (server_find(server->daemon, xid->pid) || (xid->pid != 0 && !xid->is_server))
		return false;
	return find_device(server, xid) != FAULT_DEVICE_UNKNOWN;
}

/*
 * To a server that has stopped reading for the sake of a client on its way
 * nothing is sent: that client has to find the next server.
 */
static void send_address(struct server *server, uint64_t address, uint32_t ordinal)
{
	struct frame_fault_address frame = {0};

	if (server->is_address_told || !server->link || server->in_flight)
		return;
	frame_init(&frame, FRAME_FAULT_ADDRESS, 0);
	frame.address = address;
	frame.ordinal = ordinal;
	server->is_address_told = peer_send(server->link, &frame, -EBADF) == 0;
}

static void take(struct server *server, const struct xid *xid)
{
	struct fault *fault = find(server->daemon, server);
	uint32_t ordinal = find_device(server, xid);

	/* The server may have ended before it can repeat it. */
	if (fault && fault->address == 0) {
		fault->address = xid->address;
		set_device(fault, server, ordinal);
	}
	send_address(server, xid->address, ordinal);
}

bool faults_on_xid(struct daemon *daemon, const struct xid *xid)
{
	list_for_each (item, &daemon->servers) {
		struct server *server = container_of(item, struct server, link_in_daemon);

		if (server->state == SERVER_FAULT && concerns(server, xid)) {
			take(server, xid);
			return true;
		}
	}
	return false;
}

void faults_on_state(struct server *server)
{
	struct kernel_log *log = &server->daemon->kernel_log;
	uint64_t now_ms = uv_now(&server->daemon->loop);

	if (!kernel_log_is_open(log)) {
		send_address(server, 0, FAULT_DEVICE_UNKNOWN);
		return;
	}
	for (unsigned i = 0; i < XIDS_KEPT; i++)
		if (log->seen[i].ms > 0 && now_ms - log->seen[i].ms < XID_MS &&
			concerns(server, &log->seen[i].xid)) {
			take(server, &log->seen[i].xid);
			log->seen[i].ms = 0;
			return;
		}
}

/* ---- asked for */

static bool may_know(const struct daemon *daemon, const struct fault *fault, uid_t uid)
{
	return daemon_trusts(daemon, uid) || fault->server_uid == uid || is_hurt(fault, uid);
}

const struct fault *faults_get(const struct daemon *daemon, uid_t uid, unsigned nth)
{
	const struct faults *faults = &daemon->faults;

	for (uint64_t i = 0; i < FAULTS_MAX && i < faults->last; i++) {
		const struct fault *fault = &faults->list[(faults->last - i) % FAULTS_MAX];

		if (may_know(daemon, fault, uid) && nth-- == 0)
			return fault;
	}
	return NULL;
}

void faults_fini(struct faults *faults)
{
	for (size_t i = 0; i < FAULTS_MAX; i++)
		free(TAKE_PTR(faults->list[i].hurt));
}
