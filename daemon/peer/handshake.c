/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The handshake of a client or a server. Loop thread.
 *
 * Invariant: no byte after the handshake is read, so the server finds the next
 * bytes of the client on the connection that it receives.
 */

#include "handshake.h"

#include "cuda.h"
#include "server_conn.h"
#include "spec_hash.h"
#include "daemon/state/daemon.h"
#include "daemon/state/released.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/cgroup_groups.h"
#include "daemon/server/membership.h"
#include "daemon/server/server.h"
#include "daemon/server/slot_choice.h"
#include "daemon/watch/upgrade.h"

/* The part of both frames that every version has. */
#define HELLO_PREFIX (offsetof(struct frame_hello, spec_hash) + sizeof(uint64_t))
#define SERVER_PREFIX (offsetof(struct frame_server, spec_hash) + sizeof(uint64_t))

static bool is_variable_ok(const struct frame_variable *variable)
{
	return variable->is_set <= 1 && frame_text_ok(variable->value, sizeof(variable->value));
}

static bool is_hello_ok(const struct frame_hello *hello)
{
	return hello->head.n_fds == 0 && hello->is_isolated <= 1 && hello->continues <= 1 &&
	       is_variable_ok(&hello->group) && is_variable_ok(&hello->sm_partition) &&
	       is_variable_ok(&hello->client_priority) &&
	       frame_text_ok(hello->command, sizeof(hello->command));
}

static void handshake_drop(struct conn *conn, const char *what)
{
	conn_log(conn, "Process %d of user %u: %s: closing its connection", conn->cred.pid,
		conn->cred.uid, what);
	conn_close(conn);
}

static void handshake_client(struct conn *conn)
{
	struct daemon *daemon = conn->daemon;
	struct error_message error;
	struct slot *slot;

	if (!is_hello_ok(&conn->in.hello)) {
		handshake_drop(conn, "malformed handshake");
		return;
	}
	if (!daemon_serves(daemon, conn->cred.uid)) {
		conn_refuse(conn, CUDA_ERROR_NOT_PERMITTED,
			"The MPS daemon runs as UID %u and serves that user only: start it as root "
			"to "
			"serve UID %u too, or use a CUDA_MPS_PIPE_DIRECTORY of your own",
			daemon->config.uid, conn->cred.uid);
		return;
	}
	if (!membership_decide(conn) || !cgroup_groups_join(conn))
		return;
	slot = slot_choose(conn, &error);
	if (slot)
		slot_add_client(slot, conn);
	else
		conn_refuse(conn, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "%s", error.text);
}

/* The server that this process is; NULL: it is not known to this daemon. */
static struct server *handshake_find_server(const struct conn *conn)
{
	struct server *server = server_find(conn->daemon, conn->cred.pid);

	return server && server->tenant->uid == conn->cred.uid ? server : NULL;
}

/* Refuses a server, which then ends when its clients have left. */
static void handshake_refuse_server(struct conn *conn, const char *why)
{
	const struct frame_shutdown shutdown = {.head = frame_head(FRAME_SHUTDOWN, 0)};

	conn_log(conn, "Server %d of user %u is refused: %s", conn->cred.pid, conn->cred.uid, why);
	(void)conn_send(conn, &shutdown, -EBADF);
	conn_close(conn);
}

static void handshake_server(struct conn *conn)
{
	const struct frame_server *frame = &conn->in.server;
	struct server *server = handshake_find_server(conn);

	if (frame->uid != conn->cred.uid) {
		handshake_drop(conn, "claims to be another user's server");
		return;
	}
	if (!daemon_serves(conn->daemon, conn->cred.uid)) {
		handshake_drop(conn, "is a server of a user that this daemon does not serve");
		return;
	}
	if (!server)
		handshake_refuse_server(
			conn, "neither this daemon nor the previous one has started it");
	else if (server->conn)
		handshake_refuse_server(conn, "it already has a connection");
	else {
		server->build = frame->build;
		server_conn_open(server, conn);
		upgrade_note(server);
	}
}

/* Refuses a peer of another build, in a form that every build understands. */
static void refuse_client_version(struct conn *conn, uint32_t version, uint64_t spec_hash)
{
	conn_refuse(conn, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
		"The client library has version %u (spec %016llx), the MPS daemon version %d (spec "
		"%016llx): restart the daemon or use the library of the same build",
		version, (unsigned long long)spec_hash, FRAME_VERSION, SPEC_HASH);
}

static void refuse_while_quitting(struct conn *conn)
{
	struct error_message error;

	daemon_say_quitting(conn->daemon, &error);
	conn_refuse(conn, CUDA_ERROR_MPS_CONNECTION_FAILED, "%s", error.text);
}

/*
 * A server of the previous daemon, which was of another version, works for its clients until
 * they end: every version understands the polite shutdown. It comes again if it has not read that.
 */
static void refuse_server_version(struct conn *conn, uint32_t version, uint64_t spec_hash)
{
	struct server *server = handshake_find_server(conn);
	struct error_message error;

	error_message_set(&error, 0,
		"mps-server has version %u (spec %016llx), mps-control version %d (spec %016llx): "
		"install both from the same build",
		version, (unsigned long long)spec_hash, FRAME_VERSION, SPEC_HASH);
	if (server && !server->is_child && !server->conn) {
		handshake_refuse_server(conn, error.text);
		released_add(conn->daemon, server->pid, server->tenant->uid, server->pidfd);
		server_release(server);
		return;
	}
	if (!server) {
		handshake_refuse_server(conn, error.text);
		return;
	}
	conn_log(conn, "Server %d of user %u is refused: %s", conn->cred.pid, conn->cred.uid,
		error.text);
	conn_close(conn);
	if (!server->conn)
		server_kill(server, &error);
}

/* 1: the version is ours. 0: more is needed, or the connection is closed. */
static int handshake_check_version(struct conn *conn)
{
	bool is_hello = conn->in.head.type == FRAME_HELLO;
	uint32_t version;
	uint64_t spec_hash;
	int r = conn_fill_frame(conn, is_hello ? HELLO_PREFIX : SERVER_PREFIX);

	if (r < 0)
		conn_close(conn);
	if (r <= 0)
		return 0;
	version = is_hello ? conn->in.hello.version : conn->in.server.version;
	spec_hash = is_hello ? conn->in.hello.spec_hash : conn->in.server.spec_hash;
	/* mps-run --check sends no more than this part. */
	if (is_hello && conn->daemon->is_quitting)
		refuse_while_quitting(conn);
	else if (version == FRAME_VERSION && spec_hash == SPEC_HASH)
		return 1;
	else if (is_hello)
		refuse_client_version(conn, version, spec_hash);
	else
		refuse_server_version(conn, version, spec_hash);
	return 0;
}

void handshake_read(struct conn *conn)
{
	int r = conn_fill_frame(conn, sizeof(struct frame_head));
	uint8_t type = conn->in.head.type;

	if (r == 0)
		return;
	if (r > 0 && conn->in.head.zero == 0 && (type == FRAME_HELLO || type == FRAME_SERVER)) {
		if (handshake_check_version(conn) == 0)
			return;
		r = conn_read_frame(conn);
	} else if (r > 0) {
		r = -EBADMSG;
	}
	if (r == 0)
		return;
	if (r == -EBADMSG)
		handshake_drop(conn, "malformed handshake");
	else if (r < 0)
		conn_close(conn);
	else if (type == FRAME_HELLO)
		handshake_client(conn);
	else
		handshake_server(conn);
}
