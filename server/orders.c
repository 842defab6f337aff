/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's orders. Loop thread.
 *
 * Invariant: the daemon gets at least one answer to each FRAME_TERMINATE, as long as it is
 * connected.
 */

#include "orders.h"

#include "arrival.h"
#include "bounds.h"
#include "client_conn.h"
#include "departure.h"
#include "newcomers.h"
#include "server.h"
#include "suspension.h"
#include "server/util/log.h"
#include "server/session/trace_writer.h"
#include "server/driver/driver.h"
#include "server/link/counter_report.h"
#include "server/link/fault_report.h"
#include "server/link/group_link.h"
#include "server/link/trace_control.h"

static void shut_down(struct server *server, const struct frame_shutdown *stop)
{
	log_line("Server has been notified to shutdown");
	server_stop(server, stop->force != 0);
}

static void take_group(struct server *server, const struct frame_group *frame)
{
	if (!group_link_take(frame))
		return;
	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		client_conn_note_group(conn);
	group_link_look();
}

static struct client_conn *find_client(const struct server *server, uint64_t id)
{
	struct client_conn *conn = server->conns;

	while (conn && conn->id != id)
		conn = conn->next;
	return conn;
}

static void terminate_client(struct server *server, uint64_t id)
{
	struct client_conn *conn = find_client(server, id);

	if (conn)
		client_conn_terminate(conn);
	else
		client_conn_answer_terminate(id, newcomers_terminate(server, id)
							 ? CUDA_SUCCESS
							 : CUDA_ERROR_INVALID_CONTEXT);
}

/* The daemon knows already if the client has left. */
static void suspend_client(struct server *server, const struct frame_suspend *order)
{
	struct client_conn *conn = find_client(server, order->client);

	if (conn)
		suspension_take(conn, order);
	else
		newcomers_suspend(server, order);
	server_start_tick(server);
}

/* The workers of the trace may still be in a long call. */
static void end_trace(struct server *server, const struct frame_trace_end *frame)
{
	if (trace_end(frame->id) && trace_control_look(server->conns))
		server_start_tick(server);
}

static void restart(struct server *server, const struct frame_restart *order, int sock)
{
	if (order->is_successor)
		arrivals_begin(server, order, sock);
	else
		departure_begin(server, order, sock);
	server_start_tick(server);
}

/* The daemon tells the next server what it needs to know of groups. */
static bool goes_beside_departure(uint8_t type)
{
	return type == FRAME_RESTART || type == FRAME_COUNTERS || type == FRAME_GROUP ||
	       type == FRAME_LEASE || type == FRAME_LEASE_RETURN;
}

static int orders_take(struct server *server, struct frame_reader *reader)
{
	const void *frame = reader->bytes;

	if (!server->is_faulted && !goes_beside_departure(reader->head.type))
		departure_cancel(server, "the daemon gave another order");
	switch (reader->head.type) {
	case FRAME_CLIENT:
		newcomers_take(server, frame, frame_take_fd(reader, 0));
		return 0;
	case FRAME_SHUTDOWN:
		shut_down(server, frame);
		return 0;
	case FRAME_GROUP:
		take_group(server, frame);
		return 0;
	case FRAME_LEASE:
		group_link_take_lease(frame);
		return 0;
	case FRAME_LEASE_RETURN:
		group_link_give_back(frame);
		return 0;
	case FRAME_OUTPUT:
		log_take(frame_take_fd(reader, 0));
		return 0;
	case FRAME_TERMINATE:
		terminate_client(server, ((const struct frame_terminate *)frame)->client);
		return 0;
	case FRAME_SUSPEND:
		suspend_client(server, frame);
		return 0;
	case FRAME_RESTART:
		restart(server, frame, frame_take_fd(reader, 0));
		return 0;
	case FRAME_COUNTERS:
		counters_report(server->conns);
		return 0;
	case FRAME_TRACE:
		trace_control_begin(frame, frame_take_fd(reader, 0));
		return 0;
	case FRAME_TRACE_END:
		end_trace(server, frame);
		return 0;
	case FRAME_FAULT_ADDRESS:
		fault_report_take_address(&server->fault_report, frame);
		/* Clients that survive wait for it. */
		uv_async_send(&server->news);
		return 0;
	default:
		log_line("The daemon sent a frame of type %u, which is not for servers",
			reader->head.type);
		return -EBADMSG;
	}
}

static void daemon_lost(struct server *server)
{
	arrivals_on_daemon_lost(server);
	departure_on_daemon_lost(server);
	/* Nobody reads the traces any more. */
	if (trace_end_all())
		server_start_tick(server);
}

/* The clients and the state of the server are new to it. */
static void daemon_found(struct server *server)
{
	server_notify_devices(server);
	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		client_conn_notify(conn, FRAME_CLIENT_HERE);
		client_conn_notify_contexts(conn);
		if (conn->suspension_told != SUSPENSION_NONE)
			suspension_notify(conn);
	}
	newcomers_notify(server);
	arrivals_notify(server);
	/* The daemon knows cgroups by the clients in them. */
	group_link_introduce();
	server_notify_state(server);
}

static void daemon_missing(struct server *server, const char *path, uint64_t lost_ms)
{
	if (server->n_conns > 0 ||
		uv_now(&server->loop) - MAX(lost_ms, server->alone_ms) < ORPHAN_LINGER_MS)
		return;
	log_line("No control daemon on %s and no client: the server ends", path);
	server_stop(server, true);
}

const struct daemon_link_ops orders_ops = {
	.on_order = orders_take,
	.on_lost = daemon_lost,
	.on_found = daemon_found,
	.on_missing = daemon_missing,
};
