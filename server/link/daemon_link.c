/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The link to the daemon: connects, sends the hello, reads orders. Loop thread;
 * daemon_link_init() runs before the loop exists.
 *
 * Invariant: the hello has been sent on `sock'. No order is read while frames wait in `out':
 * the daemon always reads, so this delays an order and never the daemon.
 */

#include "daemon_link.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "async_close.h"
#include "bounds.h"
#include "build_id.h"
#include "clock.h"
#include "frame.h"
#include "frame_queue.h"
#include "spec_hash.h"
#include "server/util/log.h"
#include "server/session/fault.h"

/* How long a server that ends waits for the daemon to read its last frames. */
#define DRAIN_MS 1000

static struct {
	char path[SOCKET_PATH_MAX + 1];
	int sock; /* -EBADF: there is no daemon */
	const struct daemon_link_ops *ops;
	struct server *server; /* for them */
	uv_loop_t *loop;
	uv_poll_t poll;
	uv_timer_t retry;
	bool is_reading;       /* the server accepts clients */
	bool is_closing;       /* the poll handle is closing */
	bool is_stopping;      /* the server ends */
	bool awaits_successor; /* for clients that survive a fault */
	bool is_forced;        /* ... and takes no further client */
	uint64_t lost_ms;      /* when the daemon was lost, by the loop's clock */
	int loss;              /* why, as a negative errno; 0: it is in the log */
	uint64_t build;        /* of this program */
	struct frame_reader reader;
	struct frame_queue out; /* empty without a daemon */
} daemon_link = {.sock = -EBADF};

static void on_event(uv_poll_t *poll, int status, int events);

static int make_path(void)
{
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
	int n;

	n = snprintf(daemon_link.path, sizeof(daemon_link.path), "%s/control",
		dir && *dir ? dir : PIPE_DIRECTORY_DEFAULT);
	return n < 0 || (size_t)n >= sizeof(daemon_link.path) ? -ENAMETOOLONG : 0;
}

/* Any process may listen there. Orders are taken only from root and from this server's user. */
static int check_peer(int sock)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	return cred.uid == 0 || cred.uid == getuid() ? 0 : -EPERM;
}

/* Sends the hello, which says who this server is. */
static int send_hello(void)
{
	const struct frame_server frame = {
		.head = frame_head(FRAME_SERVER, 0),
		.version = FRAME_VERSION,
		.uid = getuid(),
		.spec_hash = SPEC_HASH,
		.pid = (uint64_t)getpid(),
		.build = daemon_link.build,
	};

	return frame_send(daemon_link.sock, &frame, NULL, 0);
}

static int connect_daemon(void)
{
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r;

	if (sock < 0)
		return -errno;
	memcpy(address.sun_path, daemon_link.path, strlen(daemon_link.path));
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	r = check_peer(sock);
	if (r < 0)
		return r;
	daemon_link.sock = TAKE_FD(sock);
	return 0;
}

int daemon_link_init(void)
{
	int r;

	frame_reader_init(&daemon_link.reader, async_close);
	daemon_link.build = build_id_of("/proc/self/exe");
	r = make_path();
	if (r == 0) {
		log_line("Connecting to control daemon on socket: %s", daemon_link.path);
		r = connect_daemon();
	}
	if (r == 0)
		r = send_hello();
	if (r < 0)
		log_line("Cannot reach the control daemon on %s: %s. mps-server is started by "
			 "mps-control; CUDA_MPS_PIPE_DIRECTORY names its directory",
			daemon_link.path, strerrordesc_np(-r));
	return r;
}

bool daemon_link_has_daemon(void)
{
	return daemon_link.sock >= 0;
}

static void poll_start(void)
{
	int events = UV_DISCONNECT;

	if (!frame_queue_is_empty(&daemon_link.out))
		events |= UV_WRITABLE;
	else if (daemon_link.is_reading)
		events |= UV_READABLE;
	if (daemon_link_has_daemon() && !daemon_link.is_closing)
		uv_poll_start(&daemon_link.poll, events, on_event);
}

static void on_lost_closed(_unused_ uv_handle_t *handle)
{
	close(daemon_link.sock);
	daemon_link.sock = -EBADF;
	daemon_link.is_closing = false;
	frame_reader_reset(&daemon_link.reader);
}

/* The sessions continue, and another daemon may replace this one. */
static void disconnect(void)
{
	if (daemon_link.is_closing || !daemon_link_has_daemon())
		return;
	daemon_link.lost_ms = uv_now(daemon_link.loop);
	daemon_link.is_closing = true;
	frame_queue_clear(&daemon_link.out);
	daemon_link.ops->on_lost(daemon_link.server);
	uv_close((uv_handle_t *)&daemon_link.poll, on_lost_closed);
}

/* The connection has failed with that negative errno. */
static void fail(int r)
{
	if (daemon_link.is_closing)
		return;
	daemon_link.loss = r;
	disconnect();
}

/*
 * Logs a loss a moment later: the pipe of a daemon that just ends may still take a line that
 * nobody reads.
 */
static void log_loss(void)
{
	if (daemon_link.loss < 0)
		log_line("Lost the connection to the control daemon: %s",
			strerrordesc_np(-daemon_link.loss));
	daemon_link.loss = 0;
}

/*
 * Type of the next frame, which stays unread. 0: there is none yet. -ECONNRESET: the
 * connection has ended. Only between two frames.
 */
static int next_type(void)
{
	struct frame_head head;
	ssize_t n = recv(daemon_link.sock, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	return n == sizeof(head) ? head.type : 0;
}

/*
 * The server ends after a fault whatever the daemon orders, but not as after a shutdown, as long as
 * no client of it waits for a successor.
 */
static bool is_read_after_fault(int type)
{
	return daemon_link.awaits_successor || (type != FRAME_CLIENT && type != FRAME_SHUTDOWN);
}

/*
 * A client that arrives at a server that ends must get the next server. So its frame stays
 * unread, which tells the daemon that the client has not arrived (daemon/server/clients.c). After a
 * fault the server still reads what comes before a client, such as the address of the fault.
 */
static bool may_read(void)
{
	int type = FRAME_CLIENT;

	if (fault_get() == CUDA_SUCCESS && !daemon_link.is_forced)
		return true;
	if (!daemon_link.is_forced && daemon_link.reader.n_read == 0)
		type = next_type();
	if (type == 0)
		return false;
	if (is_read_after_fault(type))
		return true;
	daemon_link.is_reading = false;
	poll_start();
	return false;
}

/* 0 or -errno of the connection. */
static int read_orders(void)
{
	int r = 0;

	while (!daemon_link.is_closing && frame_queue_is_empty(&daemon_link.out) && may_read() &&
		(r = frame_read(&daemon_link.reader, daemon_link.sock)) > 0) {
		r = daemon_link.ops->on_order(daemon_link.server, &daemon_link.reader);
		if (r < 0)
			return r;
		frame_reader_reset(&daemon_link.reader);
	}
	return MIN(r, 0);
}

/*
 * A daemon that has closed the connection does not read what is left, but may have sent an order
 * before: the loss is noticed when that is read.
 */
static int forgive_closed(int r)
{
	if (r != -EPIPE && r != -ECONNRESET)
		return r;
	frame_queue_clear(&daemon_link.out);
	return 0;
}

static void on_event(_unused_ uv_poll_t *poll, _unused_ int status, int events)
{
	int r = forgive_closed(frame_queue_flush(&daemon_link.out, daemon_link.sock));

	if (r == 0 && daemon_link.is_reading)
		r = read_orders();
	else if (r == 0 && (events & UV_DISCONNECT))
		r = -ECONNRESET;
	if (r < 0)
		fail(r);
	else
		poll_start();
}

/* Introduces the server to a new daemon. */
static void introduce(void)
{
	int r;

	uv_poll_init(daemon_link.loop, &daemon_link.poll, daemon_link.sock);
	poll_start();
	log_line("Connected to the control daemon again on socket: %s", daemon_link.path);
	r = send_hello();
	if (r < 0)
		fail(r);
	else
		daemon_link.ops->on_found(daemon_link.server);
}

/* Every second without a daemon: looks for one. */
static void on_retry(_unused_ uv_timer_t *timer)
{
	log_loss();
	if (daemon_link_has_daemon() || daemon_link.is_stopping)
		return;
	if (connect_daemon() == 0)
		introduce();
	else
		daemon_link.ops->on_missing(
			daemon_link.server, daemon_link.path, daemon_link.lost_ms);
}

void daemon_link_open(uv_loop_t *loop, const struct daemon_link_ops *ops, struct server *server)
{
	daemon_link.loop = loop;
	daemon_link.ops = ops;
	daemon_link.server = server;
	uv_poll_init(loop, &daemon_link.poll, daemon_link.sock);
	uv_timer_init(loop, &daemon_link.retry);
	uv_timer_start(&daemon_link.retry, on_retry, DAEMON_RETRY_MS, DAEMON_RETRY_MS);
	poll_start();
}

void daemon_link_read(void)
{
	daemon_link.is_reading = true;
	poll_start();
}

void daemon_link_hold(void)
{
	daemon_link.is_reading = false;
	poll_start();
}

void daemon_link_await_successor(bool awaits)
{
	daemon_link.awaits_successor = awaits;
}

bool daemon_link_is_flushed(void)
{
	return frame_queue_is_empty(&daemon_link.out);
}

void daemon_link_stop(bool force)
{
	daemon_link.is_stopping = true;
	daemon_link.is_forced |= force;
}

void daemon_link_close(void)
{
	daemon_link_drain();
	disconnect();
	uv_close((uv_handle_t *)&daemon_link.retry, NULL);
}

void daemon_link_fini(void)
{
	frame_reader_fini(&daemon_link.reader);
}

void daemon_link_send(const void *frame)
{
	int r;

	if (!daemon_link_has_daemon() || daemon_link.is_closing)
		return;
	r = forgive_closed(frame_queue_send(&daemon_link.out, daemon_link.sock, frame));
	if (r < 0)
		fail(r);
	else if (!frame_queue_is_empty(&daemon_link.out))
		poll_start();
}

void daemon_link_drain(void)
{
	struct pollfd pfd = {.fd = daemon_link.sock, .events = POLLOUT};
	uint64_t end_ms = now_ms() + DRAIN_MS;

	while (frame_queue_flush(&daemon_link.out, daemon_link.sock) == 0 &&
		!frame_queue_is_empty(&daemon_link.out)) {
		int64_t left_ms = (int64_t)(end_ms - now_ms());

		if (left_ms <= 0 || (poll(&pfd, 1, (int)left_ms) < 0 && errno != EINTR))
			return;
	}
}
