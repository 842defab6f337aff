/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a client or a server makes itself known. Loop thread.
 *
 * Invariant: not a byte past the introduction is read, so the server finds the
 * client's next words on the connection that it is handed.
 */

#include <string.h>

#include "cuda.h"
#include "daemon.h"
#include "handshake.h"
#include "server_conn.h"
#include "membership.h"
#include "conn.h"
#include "server.h"
#include "spec_hash.h"
#include "tenant.h"

/* The part of a HELLO and of a server's introduction that every version has. */
#define HELLO_PREFIX (offsetof(struct frame_hello, spec_hash) + sizeof(uint64_t))
#define SERVER_PREFIX (offsetof(struct frame_server, spec_hash) + sizeof(uint64_t))

/* Reads until `wanted' bytes are there: 1, 0 when more is needed, or -errno. */
static int fill(struct peer *peer, size_t wanted)
{
	while (peer->in_size < wanted) {
		ssize_t n = peer_recv(peer, peer->in.bytes + peer->in_size, wanted - peer->in_size);

		if (n == -EAGAIN)
			return 0;
		if (n < 0) {
			peer->was_reset = n == -ECONNRESET;
			return (int)n;
		}
		if (n == 0)
			return -ECONNRESET;
		peer->in_size += (size_t)n;
	}
	return 1;
}

int introduction_read_frame(struct peer *peer)
{
	size_t size;
	int r = fill(peer, sizeof(struct frame_head));

	if (r <= 0)
		return r;
	size = frame_size(peer->in.head.type);
	if (peer->in.head.zero != 0 || size == 0 || peer->in.head.size != size)
		return -EBADMSG;
	return fill(peer, size);
}

static bool variable_ok(const struct frame_variable *variable)
{
	return variable->is_set <= 1 && frame_text_ok(variable->value, sizeof(variable->value));
}

static bool hello_ok(const struct frame_hello *hello)
{
	return hello->head.n_fds == 0 && hello->is_isolated <= 1 && hello->reserved == 0 &&
	       variable_ok(&hello->group) && variable_ok(&hello->sm_partition) &&
	       variable_ok(&hello->client_priority) &&
	       frame_text_ok(hello->command, sizeof(hello->command));
}

static void drop(struct peer *peer, const char *what)
{
	peer_log(peer, "Process %d of user %u: %s: closing its connection", peer->cred.pid,
		peer->cred.uid, what);
	peer_close(peer);
}

static void introduce_client(struct peer *peer)
{
	struct daemon *daemon = peer->daemon;
	struct reason reason;
	struct slot *slot;

	if (!hello_ok(&peer->in.hello)) {
		drop(peer, "malformed introduction");
		return;
	}
	if (!daemon_serves(daemon, peer->cred.uid)) {
		peer_refuse(peer, CUDA_ERROR_NOT_PERMITTED,
			"The MPS daemon runs as UID %u and serves that user only: start it as root "
			"to "
			"serve UID %u too, or use a CUDA_MPS_PIPE_DIRECTORY of your own",
			daemon->config.uid, peer->cred.uid);
		return;
	}
	if (!membership_decide(peer))
		return;
	slot = slot_choose(peer, &reason);
	if (slot)
		slot_add_client(slot, peer);
	else
		peer_refuse(peer, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "%s", reason.text);
}

/* The server that this process is; NULL: no daemon has started it. */
static struct server *find_server(const struct peer *peer)
{
	struct server *server = server_find(peer->daemon, peer->cred.pid);

	return server && server->tenant->uid == peer->cred.uid ? server : NULL;
}

/* A server that is refused leaves when its clients have left. */
static void turn_away(struct peer *peer, const char *why)
{
	struct frame_shutdown shutdown = {0};

	peer_log(peer, "Server %d of user %u is refused: %s", peer->cred.pid, peer->cred.uid, why);
	frame_init(&shutdown, FRAME_SHUTDOWN, 0);
	(void)peer_send(peer, &shutdown, -EBADF);
	peer_close(peer);
}

static void introduce_server(struct peer *peer)
{
	const struct frame_server *introduction = &peer->in.introduction;
	struct server *server = find_server(peer);

	if (introduction->uid != peer->cred.uid) {
		drop(peer, "claims to be another user's server");
		return;
	}
	if (!daemon_serves(peer->daemon, peer->cred.uid)) {
		drop(peer, "is a server of a user that this daemon does not serve");
		return;
	}
	if (!server)
		turn_away(peer, "this daemon has not started it, nor has the one before");
	else if (server->link)
		turn_away(peer, "it has a connection already");
	else
		link_open(server, peer);
}

/* Words of another build: says so in a form that every build understands. */
static void refuse_version(struct peer *peer, uint32_t version, uint64_t spec_hash)
{
	peer_refuse(peer, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
		"The client library has version %u (spec %016llx), the MPS daemon version %d (spec "
		"%016llx): restart the daemon or use the library of the same build",
		version, (unsigned long long)spec_hash, FRAME_VERSION, SPEC_HASH);
}

static void refuse_server_version(struct peer *peer, uint32_t version, uint64_t spec_hash)
{
	struct server *server = find_server(peer);
	struct reason reason;

	reason_set(&reason, 0,
		"mps-server has version %u (spec %016llx), mps-control version %d (spec %016llx): "
		"install both from the same build",
		version, (unsigned long long)spec_hash, FRAME_VERSION, SPEC_HASH);
	peer_log(peer, "Server %d of user %u is refused: %s", peer->cred.pid, peer->cred.uid,
		reason.text);
	peer_close(peer);
	if (server && server->is_child && !server->link)
		server_kill(server, &reason);
}

/* 1: the version is ours. 0: more is needed, or the connection is closed. */
static int check_version(struct peer *peer)
{
	bool is_hello = peer->in.head.type == FRAME_HELLO;
	uint32_t version;
	uint64_t spec_hash;
	int r = fill(peer, is_hello ? HELLO_PREFIX : SERVER_PREFIX);

	if (r < 0)
		peer_close(peer);
	if (r <= 0)
		return 0;
	version = is_hello ? peer->in.hello.version : peer->in.introduction.version;
	spec_hash = is_hello ? peer->in.hello.spec_hash : peer->in.introduction.spec_hash;
	if (version == FRAME_VERSION && spec_hash == SPEC_HASH)
		return 1;
	if (is_hello)
		refuse_version(peer, version, spec_hash);
	else
		refuse_server_version(peer, version, spec_hash);
	return 0;
}

void introduction_read(struct peer *peer)
{
	int r = fill(peer, sizeof(struct frame_head));
	uint8_t type = peer->in.head.type;

	if (r == 0)
		return;
	if (r > 0 && peer->in.head.zero == 0 && (type == FRAME_HELLO || type == FRAME_SERVER)) {
		if (check_version(peer) == 0)
			return;
		r = introduction_read_frame(peer);
	} else if (r > 0) {
		r = -EBADMSG;
	}
	if (r == 0)
		return;
	if (r == -EBADMSG)
		drop(peer, "malformed introduction");
	else if (r < 0)
		peer_close(peer);
	else if (type == FRAME_HELLO)
		introduce_client(peer);
	else
		introduce_server(peer);
}
