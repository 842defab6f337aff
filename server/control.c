/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The link to the daemon: connects, sends the hello, reads orders. Loop thread;
 * control_init() runs before the loop exists.
 *
 * Invariant: the hello has been sent on `sock'. No order is read while frames wait in `out':
 * the daemon always reads, so this delays an order and never the daemon.
 */

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "async_close.h"
#include "clock.h"
#include "counter_report.h"
#include "group_link.h"
#include "newcomers.h"
#include "server.h"
#include "spec_hash.h"
#include "terminate.h"
#include "server/util/log.h"
#include "server/session/fault.h"

/* How long a server that ends waits for the daemon to read its last frames. */
#define DRAIN_MS 1000

static void on_control_event(uv_poll_t *poll, int status, int events);

static int make_path(struct control *control)
{
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
	int n;

	n = snprintf(control->path, sizeof(control->path), "%s/control",
		dir && *dir ? dir : PIPE_DIRECTORY_DEFAULT);
	return n < 0 || (size_t)n >= sizeof(control->path) ? -ENAMETOOLONG : 0;
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
static int control_send_hello(int sock)
{
	struct frame_server frame = {0};

	frame_init(&frame, FRAME_SERVER, 0);
	frame.version = FRAME_VERSION;
	frame.uid = getuid();
	frame.spec_hash = SPEC_HASH;
	frame.pid = (uint64_t)getpid();
	return frame_send(sock, &frame, NULL, 0);
}

static int connect_daemon(struct control *control)
{
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r;

	if (sock < 0)
		return -errno;
	memcpy(address.sun_path, control->path, strlen(control->path));
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	r = check_peer(sock);
	if (r < 0)
		return r;
	control->sock = TAKE_FD(sock);
	return 0;
}

int control_init(struct control *control)
{
	int r;

	control->sock = -EBADF;
	frame_reader_init(&control->reader, async_close);
	r = make_path(control);
	if (r == 0) {
		log_line("Connecting to control daemon on socket: %s", control->path);
		r = connect_daemon(control);
	}
	if (r == 0)
		r = control_send_hello(control->sock);
	if (r < 0)
		log_line("Cannot reach the control daemon on %s: %s. mps-server is started by "
			 "mps-control; CUDA_MPS_PIPE_DIRECTORY names its directory",
			control->path, strerrordesc_np(-r));
	return r;
}

static void poll_start(struct server *server)
{
	struct control *control = &server->control;
	int events = UV_DISCONNECT;

	if (!frame_queue_is_empty(&control->out))
		events |= UV_WRITABLE;
	else if (control->is_reading)
		events |= UV_READABLE;
	if (control_has_daemon(control) && !control->is_closing)
		uv_poll_start(&control->poll, events, on_control_event);
}

static void on_lost_closed(uv_handle_t *handle)
{
	struct server *server = handle->data;
	struct control *control = &server->control;

	close(control->sock);
	control->sock = -EBADF;
	control->is_closing = false;
	frame_reader_reset(&control->reader);
}

/* The sessions continue, and another daemon may replace this one. */
static void control_disconnect(struct server *server)
{
	struct control *control = &server->control;

	if (control->is_closing || !control_has_daemon(control))
		return;
	control->lost_ms = uv_now(&server->loop);
	control->is_closing = true;
	frame_queue_clear(&control->out);
	trace_control_drop(server);
	uv_close((uv_handle_t *)&control->poll, on_lost_closed);
}

/* The connection has failed with that negative errno. */
static void control_fail(struct server *server, int r)
{
	if (server->control.is_closing)
		return;
	server->control.loss = r;
	control_disconnect(server);
}

/*
 * Logs a loss a moment later: the pipe of a daemon that just ends may still take a line that
 * nobody reads.
 */
static void log_loss(struct control *control)
{
	if (control->loss < 0)
		log_line("Lost the connection to the control daemon: %s",
			strerrordesc_np(-control->loss));
	control->loss = 0;
}

static void take_order(struct server *server)
{
	struct control *control = &server->control;
	const struct frame_client *client = (const void *)control->reader.bytes;
	const struct frame_shutdown *stop = (const void *)control->reader.bytes;
	const struct frame_group *group = (const void *)control->reader.bytes;
	const struct frame_lease *lease = (const void *)control->reader.bytes;
	const struct frame_terminate *terminate = (const void *)control->reader.bytes;
	const struct frame_fault_address *address = (const void *)control->reader.bytes;
	const struct frame_trace *trace = (const void *)control->reader.bytes;
	const struct frame_trace_end *trace_end = (const void *)control->reader.bytes;

	switch (control->reader.head.type) {
	case FRAME_CLIENT:
		newcomers_take(server, client, frame_take_fd(&control->reader, 0));
		break;
	case FRAME_SHUTDOWN:
		log_line("Server has been notified to shutdown");
		server_stop(server, stop->force != 0);
		break;
	case FRAME_GROUP:
		group_link_take(server, group);
		break;
	case FRAME_LEASE:
		group_link_take_lease(server, lease);
		break;
	case FRAME_LEASE_RETURN:
		group_link_give_back(server, lease);
		break;
	case FRAME_OUTPUT:
		log_take(frame_take_fd(&control->reader, 0));
		break;
	case FRAME_TERMINATE:
		terminate_client(server, terminate->client);
		break;
	case FRAME_COUNTERS:
		counters_report(server);
		break;
	case FRAME_TRACE:
		trace_control_begin(server, trace, frame_take_fd(&control->reader, 0));
		break;
	case FRAME_TRACE_END:
		trace_control_end(server, trace_end);
		break;
	case FRAME_FAULT_ADDRESS:
		fault_report_take_address(server, address);
		break;
	default:
		log_line("The daemon sent a frame of type %u, which is not for servers",
			control->reader.head.type);
		control_fail(server, -EBADMSG);
	}
}

/*
 * Type of the next frame, which stays unread. 0: there is none yet. -ECONNRESET: the
 * connection has ended. Only between two frames.
 */
static int control_next(const struct control *control)
{
	struct frame_head head;
	ssize_t n = recv(control->sock, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	return n == sizeof(head) ? head.type : 0;
}

/* The server ends after a fault whatever the daemon orders, but not as after a shutdown. */
static bool is_read_after_fault(int type)
{
	return type != FRAME_CLIENT && type != FRAME_SHUTDOWN;
}

/*
 * A client that arrives at a server that ends must get the next server. So its frame stays
 * unread, which tells the daemon that the client has not arrived (daemon/server/clients.c). After a
 * fault the server still reads what comes before a client, such as the address of the fault.
 */
static bool control_may_read(struct server *server)
{
	struct control *control = &server->control;
	int type = FRAME_CLIENT;

	if (fault_get() == CUDA_SUCCESS && !server->is_forced)
		return true;
	if (!server->is_forced && control->reader.n_read == 0)
		type = control_next(control);
	if (type == 0)
		return false;
	if (is_read_after_fault(type))
		return true;
	control->is_reading = false;
	poll_start(server);
	return false;
}

/* 0 or -errno of the connection. */
static int control_read_orders(struct server *server)
{
	struct control *control = &server->control;
	int r = 0;

	while (!control->is_closing && frame_queue_is_empty(&control->out) &&
		control_may_read(server) && (r = frame_read(&control->reader, control->sock)) > 0) {
		take_order(server);
		frame_reader_reset(&control->reader);
	}
	return MIN(r, 0);
}

static void on_control_event(uv_poll_t *poll, int status, int events)
{
	struct server *server = poll->data;
	struct control *control = &server->control;
	int r = frame_queue_flush(&control->out, control->sock);

	(void)status;
	if (r == 0 && control->is_reading)
		r = control_read_orders(server);
	else if (r == 0 && (events & UV_DISCONNECT))
		r = -ECONNRESET;
	if (r < 0)
		control_fail(server, r);
	else
		poll_start(server);
}

/* Introduces the server, its clients and its state to a new daemon. */
static void control_introduce(struct server *server)
{
	struct control *control = &server->control;
	int r;

	uv_poll_init(&server->loop, &control->poll, control->sock);
	control->poll.data = server;
	poll_start(server);
	log_line("Connected to the control daemon again on socket: %s", control->path);
	r = control_send_hello(control->sock);
	if (r < 0) {
		control_fail(server, r);
		return;
	}
	server_notify_devices(server);
	group_link_introduce(server);
	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		client_conn_notify(server, conn, FRAME_CLIENT_HERE);
		client_conn_notify_contexts(conn);
	}
	newcomers_notify(server);
	server_notify_state(server);
}

/* Every second without a daemon: looks for one. */
static void on_retry(uv_timer_t *timer)
{
	struct server *server = timer->data;
	struct control *control = &server->control;
	uint64_t now_ms = uv_now(&server->loop);

	log_loss(control);
	if (control_has_daemon(control) || server->is_stopping)
		return;
	if (connect_daemon(control) == 0) {
		control_introduce(server);
		return;
	}
	if (server->n_conns == 0 &&
		now_ms - MAX(control->lost_ms, server->alone_ms) >= ORPHAN_LINGER_MS) {
		log_line("No control daemon on %s and no client: the server ends", control->path);
		server_stop(server, true);
	}
}

void control_open(struct server *server)
{
	struct control *control = &server->control;

	uv_poll_init(&server->loop, &control->poll, control->sock);
	control->poll.data = server;
	uv_timer_init(&server->loop, &control->retry);
	control->retry.data = server;
	uv_timer_start(&control->retry, on_retry, DAEMON_RETRY_MS, DAEMON_RETRY_MS);
	poll_start(server);
}

void control_read(struct server *server)
{
	server->control.is_reading = true;
	poll_start(server);
}

void control_close(struct server *server)
{
	struct control *control = &server->control;

	control_drain(server);
	control_disconnect(server);
	uv_close((uv_handle_t *)&control->retry, NULL);
}

void control_send(struct server *server, const void *frame)
{
	struct control *control = &server->control;
	int r;

	if (!control_has_daemon(control) || control->is_closing)
		return;
	r = frame_queue_send(&control->out, control->sock, frame);
	if (r < 0)
		control_fail(server, r);
	else if (!frame_queue_is_empty(&control->out))
		poll_start(server);
}

void control_drain(struct server *server)
{
	struct control *control = &server->control;
	struct pollfd pfd = {.fd = control->sock, .events = POLLOUT};
	uint64_t end_ms = now_ms() + DRAIN_MS;

	while (frame_queue_flush(&control->out, control->sock) == 0 &&
		!frame_queue_is_empty(&control->out)) {
		int64_t left_ms = (int64_t)(end_ms - now_ms());

		if (left_ms <= 0 || (poll(&pfd, 1, (int)left_ms) < 0 && errno != EINTR))
			return;
	}
}
