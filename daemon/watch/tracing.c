/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Traces: begun, ended, read. Loop thread.
 *
 * Invariant: the memory of a trace has its full size from the beginning, and is sealed. It is
 * read by read calls, into private memory. So nothing that a server does with it can hold up
 * or end the daemon.
 */

#include "tracing.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace_text.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"

/* A server's workers reply at once, unless they are in a long call of the driver. */
#define REPLY_MS 1000

static int make_memory(int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("mps-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)TRACE_SIZE) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* The trace of the user's clients that the server records; UINT32_MAX: of all users. */
static struct trace *find_recording(const struct server *server, uint32_t traced_uid)
{
	list_each (struct trace, trace, &server->daemon->traces, link)
		if (trace->server == server && trace->traced_uid == traced_uid)
			return trace;
	return NULL;
}

static uint32_t traced_uid(const struct conn *conn)
{
	return viewer_sees_all(conn) ? UINT32_MAX : conn->cred.uid;
}

/* What the user has not written is replaced by the next trace of that server. */
static bool is_replaced(const struct trace *trace, const struct conn *conn, pid_t server_pid)
{
	return !trace->server && trace->owner == conn->cred.uid &&
	       (trace->server_pid == server_pid || !server_find(conn->daemon, trace->server_pid));
}

/* A part is reserved for trusted users; an account has no more than it leaves to others. */
static bool has_space(const struct conn *conn, pid_t server_pid)
{
	const struct daemon *daemon = conn->daemon;
	const struct account *account = conn->tenant->account;
	unsigned n = 0, n_own = 0;

	list_each (const struct trace, trace, &daemon->traces, link) {
		if (is_replaced(trace, conn, server_pid))
			continue;
		n++;
		n_own += trace->account == account;
	}
	if (daemon_trusts(daemon, conn->cred.uid))
		return n < TRACES_MAX;
	return n_own < TRACES_OF_GUEST_MAX &&
	       account_may_take(n_own, n, TRACES_MAX - RESERVED_TRACES);
}

static void free_replaced(const struct conn *conn, pid_t server_pid)
{
	list_each_safe (struct trace, trace, &conn->daemon->traces, link)
		if (is_replaced(trace, conn, server_pid))
			tracing_free(trace);
}

static int send_begin(struct trace *trace)
{
	const struct frame_trace frame = {
		.head = frame_head(FRAME_TRACE, 1), .id = trace->id, .uid = trace->traced_uid};
	int r;

	if (trace->is_begun)
		return 0;
	r = conn_send(trace->server->conn, &frame, trace->fd);
	trace->is_begun = r == 0;
	return r;
}

static void send_end(struct trace *trace)
{
	const struct frame_trace_end frame = {
		.head = frame_head(FRAME_TRACE_END, 0), .id = trace->id};

	if (trace->is_asked && !trace->is_end_sent)
		trace->is_end_sent = conn_send(trace->server->conn, &frame, -EBADF) == 0;
}

static void tracing_send(struct server *server)
{
	list_each (struct trace, trace, &server->daemon->traces, link)
		if (trace->server == server && send_begin(trace) == 0)
			send_end(trace);
}

/* The server has no such trace now. */
static int begin(struct conn *conn, struct server *server)
{
	_cleanup_free_ struct trace *trace = calloc(1, sizeof(*trace));
	_cleanup_close_ int fd = -EBADF;
	int r;

	if (!trace)
		return -ENOMEM;
	r = make_memory(&fd);
	if (r < 0)
		return r; /* NOLINT(clang-analyzer-unix.Malloc): the cleanup frees it */
	trace->id = ++conn->daemon->last_trace_id;
	trace->owner = conn->cred.uid;
	trace->account = conn->tenant->account;
	trace->traced_uid = traced_uid(conn);
	trace->server_pid = server->pid;
	trace->server = server;
	trace->clients_uid = daemon_trusts_server(conn->daemon, server->tenant->uid)
				     ? UINT32_MAX
				     : server->tenant->uid;
	trace->fd = fd;
	r = send_begin(trace);
	if (r < 0 && r != -EAGAIN)
		return r; /* NOLINT(clang-analyzer-unix.Malloc): the cleanup frees it */
	TAKE_FD(fd);
	account_ref(trace->account);
	list_add_tail(&conn->daemon->traces, &trace->link);
	TAKE_PTR(trace);
	free_replaced(conn, server->pid);
	return 0;
}

int tracing_begin(struct conn *conn, struct server *server)
{
	if (!server->conn)
		return -ENOTCONN;
	if (find_recording(server, traced_uid(conn)))
		return -EALREADY;
	return has_space(conn, server->pid) ? begin(conn, server) : -EUSERS;
}

void tracing_free(struct trace *trace)
{
	list_remove(&trace->link);
	account_unref(trace->account);
	closep(&trace->fd);
	free(trace);
}

bool tracing_permits(const struct conn *conn, const struct trace *trace)
{
	return trace->owner == conn->cred.uid || viewer_sees_all(conn);
}

struct trace *tracing_find(const struct conn *conn, uint64_t id)
{
	list_each (struct trace, trace, &conn->daemon->traces, link)
		if (trace->id == id && tracing_permits(conn, trace))
			return trace;
	return NULL;
}

/* ---- the end */

/* After the deadline, a worker in a long call may still add to the memory, which does no harm. */
static const struct pending pending_traces = {.on_deadline = pending_rerun};

static bool is_any_ending(const struct daemon *daemon)
{
	list_each (const struct trace, trace, &daemon->traces, link)
		if (trace->server && trace->is_asked)
			return true;
	return false;
}

static void check(struct daemon *daemon)
{
	if (!is_any_ending(daemon))
		pending_rerun_all(&daemon->tracing);
}

static void ask_to_end(struct trace *trace)
{
	if (!trace->server || !trace->server->conn)
		return;
	trace->is_asked = true;
	tracing_send(trace->server);
}

bool tracing_is_ended(struct conn *conn, pid_t server_pid, const char *command)
{
	struct daemon *daemon = conn->daemon;

	if (conn->awaited == &pending_traces)
		return true;
	list_each (struct trace, trace, &daemon->traces, link)
		if (tracing_permits(conn, trace) &&
			(server_pid == 0 || trace->server_pid == server_pid))
			ask_to_end(trace);
	if (!is_any_ending(daemon) ||
		!pending_begin_rerun(conn, &pending_traces, command, REPLY_MS))
		return true;
	list_add_tail(&daemon->tracing, &conn->wait);
	return false;
}

void tracing_on_frame(struct server *server, const struct frame_trace_end *frame)
{
	list_each (struct trace, trace, &server->daemon->traces, link) {
		if (trace->server != server || trace->id != frame->id)
			continue;
		trace->server = NULL;
		trace->n_lost = frame->n_lost;
		trace->is_cut = !trace->is_asked;
		check(server->daemon);
		return;
	}
}

static void tracing_fail(struct server *server)
{
	bool is_any = false;

	list_each (struct trace, trace, &server->daemon->traces, link) {
		if (trace->server != server)
			continue;
		trace->server = NULL;
		trace->is_cut = is_any = true;
	}
	if (is_any)
		check(server->daemon);
}

void tracing_fini(struct daemon *daemon)
{
	list_each_safe (struct trace, trace, &daemon->traces, link)
		tracing_free(trace);
}

/* ---- reading */

/* The server of an ordinary user has no clients of others, whatever it writes. */
static bool may_read_chunk(
	const struct conn *conn, const struct trace *trace, const struct trace_head *head)
{
	return (trace->clients_uid == UINT32_MAX || head->uid == trace->clients_uid) &&
	       (viewer_sees_all(conn) || head->uid == conn->cred.uid);
}

bool tracing_read(
	const struct conn *conn, const struct trace *trace, unsigned index, struct trace_chunk *ret)
{
	const off_t at = (off_t)((uint64_t)index * TRACE_CHUNK_SIZE);

	return index < TRACE_CHUNKS &&
	       pread(trace->fd, ret, sizeof(*ret), at) == (ssize_t)sizeof(*ret) &&
	       trace_chunk_ok(ret) && may_read_chunk(conn, trace, &ret->head);
}

static bool read_head(
	const struct conn *conn, const struct trace *trace, unsigned index, struct trace_head *ret)
{
	const off_t at = (off_t)((uint64_t)index * TRACE_CHUNK_SIZE);

	return pread(trace->fd, ret, sizeof(*ret), at) == (ssize_t)sizeof(*ret) &&
	       ret->magic == TRACE_MAGIC && ret->n_records <= TRACE_RECORDS &&
	       may_read_chunk(conn, trace, ret);
}

void tracing_summarise(
	const struct conn *conn, const struct trace *trace, struct trace_summary *ret)
{
	uint32_t sessions[TRACE_CHUNKS] = {0};
	struct trace_head head;

	*ret = (struct trace_summary){.n_lost = trace->n_lost};
	for (unsigned i = 0; i < TRACE_CHUNKS; i++) {
		unsigned k = 0;

		if (!read_head(conn, trace, i, &head))
			continue;
		ret->n_chunks = i + 1;
		ret->n_events += head.n_records;
		if (trace->n_lost == 0 && head.n_lost <= UINT32_MAX)
			ret->n_lost += head.n_lost;
		while (k < ret->n_clients && sessions[k] != head.session)
			k++;
		sessions[k] = head.session;
		ret->n_clients += k == ret->n_clients;
	}
}

const struct server_watch tracing_watch = {
	.on_writable = tracing_send,
	.on_lost = tracing_fail,
};
