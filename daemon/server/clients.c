/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The clients of a server. Loop thread.
 *
 * Invariant: a connection is handed to one server at a time, and is closed
 * here only when that server has received it.
 */

#include "clients.h"

#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "eviction_stay.h"
#include "group_shares.h"
#include "partition_choice.h"
#include "server.h"
#include "server_watch.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/quarantine.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"

/* How soon to check whether the server has read: first interval, and longest interval. */
#define HANDOVER_CHECK_MS 1
#define HANDOVER_CHECK_MAX_MS 100

const char *client_stays(const struct client *client)
{
	enum eviction_stay stay = (enum eviction_stay)client->counts.stay;

	return stay == STAY_NOTHING ? "" : eviction_stay_text(stay);
}

void client_set_probation(struct client *client, const struct daemon *daemon, uint32_t ms)
{
	client->probation_end_ms = ms > 0 ? uv_now(&daemon->loop) + ms : 0;
}

bool client_is_on_probation(const struct client *client, const struct daemon *daemon)
{
	return uv_now(&daemon->loop) < client->probation_end_ms;
}

struct client *clients_find(const struct server *server, uint64_t id)
{
	list_each (struct client, client, &server->clients, link)
		if (client->id == id)
			return client;
	return NULL;
}

unsigned clients_count_process(const struct server *server, pid_t pid)
{
	unsigned n = 0;

	list_each (struct client, client, &server->clients, link)
		n += client->pid == pid;
	return n;
}

static unsigned count_waiting_clients(const struct daemon *daemon, uint32_t group)
{
	unsigned n = 0;

	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each (struct conn, conn, &tenant->conns, link)
			n += conn->group == group;
	return n;
}

unsigned clients_count_group(const struct daemon *daemon, uint32_t group)
{
	unsigned n = count_waiting_clients(daemon, group);

	list_each (struct server, server, &daemon->servers, link_in_daemon)
		list_each (struct client, client, &server->clients, link)
			n += client->group == group;
	return n;
}

/*
 * Whether the user may have another session. A part is reserved for trusted users; the other
 * users have no more than they leave to others.
 */
static bool may_have_session(const struct daemon *daemon, uid_t uid, const struct account *account)
{
	if (daemon_trusts(daemon, uid))
		return daemon->n_sessions < ALL_SESSIONS_MAX;
	return account_may_take(
		account->n_sessions, daemon->n_sessions, ALL_SESSIONS_MAX - RESERVED_SESSIONS);
}

/* The inode in "pid:[4026531836]", or 0. */
static uint64_t read_pid_namespace(pid_t pid)
{
	char path[64], text[64];
	unsigned long long inode;
	ssize_t n;

	if (pid <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "pid:[%llu]", &inode) == 1 ? inode : 0;
}

static void set_soft_limits(struct client *client, uint64_t soft_limit)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		client->soft[i] = soft_limit;
}

int clients_add(
	struct server *server, const struct frame_client_note *note, struct client **ret_client)
{
	struct daemon *daemon = server->daemon;
	struct tenant *tenant = tenant_get(daemon, note->uid, -EBADF);
	struct client *client;

	if (!tenant)
		return -ENOMEM;
	if (server->n_clients >= SESSIONS_MAX)
		return -EUSERS;
	if (!may_have_session(daemon, note->uid, tenant->account))
		return -EDQUOT;
	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	client->account = account_ref(tenant->account);
	client->account->n_sessions++;
	client->id = note->id;
	client->pid = (pid_t)note->pid;
	client->uid = note->uid;
	client->program = note->program;
	client->pid_namespace = read_pid_namespace(client->pid);
	set_soft_limits(client, server_settings(server, note->uid).soft_limit);
	memcpy(client->command, note->command, sizeof(client->command));
	list_add_tail(&server->clients, &client->link);
	server->n_clients++;
	daemon->n_sessions++;
	usage_count(daemon, client->uid, USAGE_CLIENT);
	*ret_client = client;
	return 0;
}

int clients_add_context(struct server *server, const struct frame_context *frame)
{
	struct client *client = clients_find(server, frame->client);
	unsigned i = 0;

	if (!client || frame->ordinal >= server->devices.n)
		return -EBADMSG;
	while (i < client->n_contexts && client->contexts[i].ordinal != frame->ordinal)
		i++;
	client->contexts[i] = (struct context){
		.ordinal = frame->ordinal,
		.session = frame->session,
		.n_sms = frame->n_sms,
		.priority = frame->priority,
		.memory = frame->memory,
	};
	client->n_contexts = MAX(client->n_contexts, i + 1);
	return 0;
}

/* For memacct set audit_log=true. */
static void audit(const struct server *server, const struct client *client, const char *event)
{
	const struct group *group = groups_get(&server->daemon->groups, client->group);

	if (!server->daemon->is_memory_audited)
		return;
	log_control(&server->daemon->logs, "[memacct] %s client pid %d, user %u, target=%s", event,
		client->pid, client->uid, group ? group->name : "none");
	for (unsigned i = 0; i < client->n_contexts; i++) {
		const uint32_t ordinal = client->contexts[i].ordinal;

		log_control(&server->daemon->logs,
			"[memacct] client pid %d had at most %llu bytes of device %u", client->pid,
			(unsigned long long)client->counts.memory_peak[ordinal], ordinal);
	}
}

static void client_free(struct server *server, struct client *client)
{
	audit(server, client, "unregister");
	list_remove(&client->link);
	server_watch_client_end(server, client);
	client->account->n_sessions--;
	account_unref(client->account);
	free(client);
	server->daemon->n_sessions--;
	if (--server->n_clients == 0)
		server->idle_ms = uv_now(&server->daemon->loop);
}

void clients_remove(struct server *server, uint64_t id)
{
	struct client *client = clients_find(server, id);

	if (!client)
		return;
	/* A server that reports the end of a client has read the frame about the client. */
	if (server->in_flight && server->in_flight_id == id)
		clients_end_handover(server);
	client_free(server, client);
	server_bound_end(server);
}

void clients_move(struct server *from, struct client *client, struct server *to)
{
	list_remove(&client->link);
	list_add_tail(&to->clients, &client->link);
	from->n_clients--;
	to->n_clients++;
}

void clients_clear(struct server *server)
{
	list_each_safe (struct client, client, &server->clients, link)
		client_free(server, client);
}

/* ---- handing over */

/* Whether the server has read every frame that was sent to it. */
static bool server_has_read_all(const struct server *server)
{
	int n_bytes = 0;

	if (ioctl(server->conn->fd, SIOCOUTQ, &n_bytes) < 0 || n_bytes > 0)
		return false;
	/* The queue of a server that ends becomes empty too, but the socket then has an error. */
	return !conn_is_reset(server->conn);
}

static void on_handed_over_close(struct conn *conn)
{
	if (conn->handed_to)
		conn->handed_to->in_flight = NULL;
}

static const struct conn_ops handed_over_ops = {.on_close = on_handed_over_close};

/* NULL: no client is in flight. */
static struct conn *take_in_flight(struct server *server)
{
	struct conn *conn = server->in_flight;

	if (!conn)
		return NULL;
	server->in_flight = NULL;
	conn->handed_to = NULL;
	uv_timer_stop(&server->handover_timer);
	return conn;
}

void clients_end_handover(struct server *server)
{
	struct conn *conn = take_in_flight(server);

	if (conn)
		conn_close(conn);
}

struct conn *clients_take_back(struct server *server)
{
	struct conn *conn = take_in_flight(server);

	if (conn)
		client_free(server, clients_find(server, server->in_flight_id));
	return conn;
}

void clients_check_handover(struct server *server)
{
	if (server->in_flight && server->conn && server_has_read_all(server)) {
		clients_end_handover(server);
		server_send_due(server);
	}
}

/*
 * A server's loop never blocks: a server that has read nothing for this long hangs. A server with
 * a deadline, such as a stopped one, is ended then, with the reason of that deadline.
 */
static bool is_handover_overdue(const struct server *server)
{
	return server->in_flight && server->n_kills == 0 && !server->overdue &&
	       uv_now(&server->daemon->loop) - server->in_flight_ms >= server_end_ms(server);
}

static void on_handover_timer(uv_timer_t *timer)
{
	struct server *server = timer->data;
	struct error_message error;

	if (!server->in_flight)
		return;
	server->handover_check_ms = MIN(server->handover_check_ms * 2, HANDOVER_CHECK_MAX_MS);
	uv_timer_start(timer, on_handover_timer, server->handover_check_ms, 0);
	clients_check_handover(server);
	if (!is_handover_overdue(server))
		return;
	error_message_set(&error, 0,
		"Server %d has not accepted client %d within %d s: ending the server", server->pid,
		server->in_flight->cred.pid, (int)(server_end_ms(server) / 1000));
	log_control(&server->daemon->logs, "%s", error.text);
	server_kill(server, &error);
}

/* What the operator allows the client on that server. */
static struct frame_limits client_limits(
	const struct server *server, const struct group *group, struct conn *conn)
{
	struct settings settings = server_settings(server, conn->cred.uid);
	struct frame_limits limits;

	limits_init(&limits);
	settings_lower(&settings, &server->devices, &limits);
	if (group) {
		settings = groups_settings(group, &server->devices);
		settings_lower(&settings, &server->devices, &limits);
	}
	if (server->daemon->is_memacct_off)
		limits_forget_soft(&limits);
	partition_choice_set(server, conn, &limits);
	return limits;
}

static int send_cgroups(struct server *server, const struct conn *conn)
{
	int r = 0;

	for (unsigned i = 0; i < CGROUP_LEVELS_MAX && conn->cgroups[i] != 0 && r == 0; i++)
		r = group_shares_send(
			server, groups_get(&server->daemon->groups, conn->cgroups[i]));
	return r;
}

/* Sends the client, which is already on the server's list. */
static int send_client(struct server *server, struct conn *conn, struct client *client)
{
	struct group *group = groups_get(&server->daemon->groups, conn->group);
	struct frame_client frame = {
		.head = frame_head(FRAME_CLIENT, 1),
		.id = client->id,
		.pid = (uint64_t)conn->cred.pid,
		.uid = conn->cred.uid,
		.gid = conn->cred.gid,
		.group = conn->group,
		.account = client->account->uid,
		/* The server enforces the limits of the group, which may change. */
		.limits = client_limits(server, NULL, conn),
		.hello = conn->in.hello,
	};
	int r = group ? group_shares_send(server, group) : 0;

	memcpy(frame.cgroups, conn->cgroups, sizeof(frame.cgroups));
	if (r == 0)
		r = send_cgroups(server, conn);
	if (r < 0)
		return r;
	/* A program beside which no other one runs needs no probation. */
	if (!server->slot->is_isolated)
		frame.limits.probation_ms =
			quarantine_probation_ms(conn->tenant, conn->in.hello.program);
	client_set_probation(client, server->daemon, frame.limits.probation_ms);
	memcpy(client->partition, frame.limits.partition, sizeof(client->partition));
	memcpy(client->soft, frame.limits.soft, sizeof(client->soft));
	return conn_send(server->conn, &frame, conn->fd);
}

/* For log_level debug. */
static void log_limits(const struct server *server, struct conn *conn)
{
	struct log_files *logs = &server->daemon->logs;
	const struct group *group = groups_get(&server->daemon->groups, conn->group);
	struct frame_limits limits;

	if (!logs->is_verbose)
		return;
	limits = client_limits(server, group, conn);
	log_debug(logs, "Client %d of server %d: %u.%03u %% of SMs, priority %d, group %s",
		conn->cred.pid, server->pid, limits.active_threads / 1000,
		limits.active_threads % 1000, limits.priority, group ? group->name : "none");
	for (unsigned i = 0; i < server->devices.n; i++)
		if (limits.memory[i] != MEMORY_ALL)
			log_debug(logs, "Client %d of server %d: %llu bytes of device %u",
				conn->cred.pid, server->pid, (unsigned long long)limits.memory[i],
				i);
}

int clients_hand_over(struct server *server, struct conn *conn)
{
	uint64_t id = server->daemon->last_client_id + 1;
	struct frame_client_note note = {
		.id = id,
		.pid = (uint64_t)conn->cred.pid,
		.uid = conn->cred.uid,
		.program = conn->in.hello.program,
	};
	struct client *client;
	int r;

	if (server->in_flight)
		return -EAGAIN;
	memcpy(note.command, conn->in.hello.command, sizeof(note.command));
	r = clients_add(server, &note, &client);
	if (r < 0)
		return r;
	client->group = conn->group;
	memcpy(client->cgroups, conn->cgroups, sizeof(client->cgroups));
	r = send_client(server, conn, client);
	if (r < 0) {
		client_free(server, client);
		/* If the server's connection broke, the client continues to wait. */
		if (r != -EAGAIN)
			conn_close(server->conn);
		return -EAGAIN;
	}
	log_limits(server, conn);
	audit(server, client, "register");
	server->daemon->last_client_id = id;
	server->in_flight = conn;
	server->in_flight_id = id;
	server->in_flight_ms = uv_now(&server->daemon->loop);
	conn->handed_to = server;
	list_remove(&conn->wait);
	conn_become(conn, CONN_HANDED_OVER, &handed_over_ops);
	server->handover_check_ms = HANDOVER_CHECK_MS;
	uv_timer_start(&server->handover_timer, on_handover_timer, HANDOVER_CHECK_MS, 0);
	return 0;
}
