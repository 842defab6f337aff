/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arrivals: the frames of the other server on the loop, and the thread that opens GPUs.
 *
 * Invariant: until the commit, everything here is a copy: to drop it changes nothing for a client.
 * While the thread runs, it alone uses the sessions.
 */

#include "arrival.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "client_conn.h"
#include "frame.h"
#include "newcomers.h"
#include "replay.h"
#include "server.h"
#include "shm.h"
#include "spec_hash.h"
#include "suspension.h"
#include "worker.h"
#include "server/util/log.h"
#include "server/util/thread.h"
#include "server/session/session.h"
#include "server/session/session_move.h"
#include "server/session/session_part.h"
#include "server/share/eviction.h"
#include "server/link/client.h"
#include "server/link/daemon_link.h"
#include "server/link/group_link.h"

/* How long a client may take to make room for a frame: it has none to read. */
#define SEND_MS 100

/*
 * The other process ends at once. This is the time of its driver's clean-up, at most, and again of
 * the calls that open GPUs and map memory: in MPS_GRACE_MS.
 */
#define OPEN_GRACES 6

struct arrival {
	struct arrival *next;
	struct client_conn *conn;
	struct page __shm *before; /* the page of the other server, and its memory */
	int before_fd;
	struct pack pack;
	uint32_t n_fds; /* that the pack has to have */
	int result;     /* of the thread */
};

static struct {
	enum {
		NOBODY_COMES,
		EXPECTED, /* the daemon's order will come */
		COMING,   /* the other server sends */
		OPENING,  /* the clients are this server's; the thread runs */
		HERE,
	} phase;
	struct server *server;
	struct frame_reader reader;
	int sock, pidfd;
	bool has_poll;
	uv_poll_t poll;
	pthread_t thread;
	uv_async_t ended; /* the thread has */
	uv_timer_t late;  /* ... not, for too long */
	struct arrival *list, **last;
	unsigned n_expected, n;
} arrivals = {.sock = -EBADF, .pidfd = -EBADF, .last = &arrivals.list};

static void arrival_free(struct arrival *arrival)
{
	client_conn_free(arrival->conn);
	shm_unmap(arrival->before, PAGE_BYTES);
	closep(&arrival->before_fd);
	pack_fini(&arrival->pack);
	free(arrival);
}

static void on_poll_closed(_unused_ uv_handle_t *handle)
{
	closep(&arrivals.sock);
	arrivals.sock = -EBADF;
}

static void close_pair(void)
{
	frame_reader_fini(&arrivals.reader);
	if (arrivals.has_poll)
		uv_close((uv_handle_t *)&arrivals.poll, on_poll_closed);
	arrivals.has_poll = false;
}

/* Nobody comes: this process is not needed. */
static void give_up(const char *why)
{
	log_line("The clients of the server before stay there: %s", why);
	arrivals.phase = NOBODY_COMES;
	close_pair();
	while (arrivals.list) {
		struct arrival *arrival = LIST_POP(arrivals.list);

		arrival_free(arrival);
	}
	arrivals.last = &arrivals.list;
	closep(&arrivals.pidfd);
	arrivals.pidfd = -EBADF;
	server_stop(arrivals.server, true);
}

/* ---- the thread */

static void await_end(void)
{
	struct pollfd pfd = {.fd = arrivals.pidfd, .events = POLLIN};

	while (poll(&pfd, 1, OPEN_GRACES * arrivals.server->grace_ms) < 0 && errno == EINTR)
		;
}

static void *run_thread(_unused_ void *arg)
{
	await_end();
	for (struct arrival *arrival = arrivals.list; arrival; arrival = arrival->next) {
		struct session *session = arrival->conn->session;

		arrival->result = session_unpack(session, &arrival->pack);
		if (ring_has_whole(&session->receiver))
			atomic_fetch_or(&session->memory_wanted, WANTED_KEPT);
		if (session->is_dropping)
			atomic_fetch_or(&session->memory_wanted, WANTED_DROPPED);
		/* The context is current for this thread, not for the worker. */
		session->current = NULL;
	}
	for (struct arrival *arrival = arrivals.list; arrival; arrival = arrival->next) {
		struct session *session = arrival->conn->session;

		if (arrival->result == 0)
			arrival->result = session_parts_join(session);
		session->current = NULL;
	}
	uv_async_send(&arrivals.ended);
	return NULL;
}

/* ---- frames */

static int take_begin(const struct frame_move_begin *frame)
{
	if (frame->move_hash != MOVE_HASH || frame->version != FRAME_VERSION)
		return -EPROTONOSUPPORT;
	if (arrivals.pidfd >= 0 || frame->n_clients > SESSIONS_MAX)
		return -EBADMSG;
	arrivals.n_expected = frame->n_clients;
	arrivals.pidfd = frame_take_fd(&arrivals.reader, 0);
	return 0;
}

static bool is_client_ok(const struct frame_client *client)
{
	return frame_text_ok(client->hello.command, sizeof(client->hello.command));
}

/* Takes what the frame has; the arrival is on no list yet. */
static int fill_arrival(struct arrival *arrival, const struct frame_move_client *frame)
{
	const int connection = frame_take_fd(&arrivals.reader, 0);
	const int memories[] = {
		frame_take_fd(&arrivals.reader, 1), frame_take_fd(&arrivals.reader, 2), -EBADF};
	_cleanup_close_ int state = frame_take_fd(&arrivals.reader, 4);
	void __shm *map = NULL;
	int r;

	arrival->before_fd = frame_take_fd(&arrivals.reader, 3);
	r = client_conn_make(arrivals.server, &frame->client, frame->session, connection, memories,
		&arrival->conn);
	if (r == 0)
		r = shm_map(arrival->before_fd, PAGE_BYTES, SHM_OURS, &map);
	if (r < 0)
		return r;
	arrival->before = map;
	if (!session_fits(arrival->conn->session, arrival->before))
		return -ESTALE;
	arrival->n_fds = frame->n_fds;
	arrival->conn->suspected_ms = frame->suspected_ms;
	suspension_restore(arrival->conn, frame->is_suspended, frame->suspend_number);
	return pack_load(&arrival->pack, state, frame->size);
}

static int take_client(const struct frame_move_client *frame)
{
	struct arrival *arrival;
	int r;

	if (arrivals.pidfd < 0 || arrivals.n == arrivals.n_expected || frame->session == 0 ||
		frame->n_fds > PACK_FDS_MAX || frame->is_suspended > 1 ||
		!is_client_ok(&frame->client))
		return -EBADMSG;
	if (client_conn_has_unknown_group(&frame->client))
		return -ESRCH;
	arrival = calloc(1, sizeof(*arrival));
	if (!arrival)
		return -ENOMEM;
	r = fill_arrival(arrival, frame);
	if (r < 0) {
		arrival_free(arrival);
		return r;
	}
	*arrivals.last = arrival;
	arrivals.last = &arrival->next;
	arrivals.n++;
	return 0;
}

static struct arrival *last_arrival(void)
{
	return arrivals.list ? container_of(arrivals.last, struct arrival, next) : NULL;
}

static int take_fds(void)
{
	struct arrival *arrival = last_arrival();

	for (unsigned i = 0; i < arrivals.reader.head.n_fds; i++) {
		if (!arrival || arrival->pack.n_fds == arrival->n_fds)
			return -EBADMSG;
		pack_put_fd(&arrival->pack, frame_take_fd(&arrivals.reader, i));
		if (arrival->pack.is_bad)
			return -ENOMEM;
	}
	return 0;
}

/* The rest of the pack needs GPUs, which the other server still has. */
static int check_pack(struct arrival *arrival)
{
	struct session *session = arrival->conn->session;
	int r = arrival->pack.n_fds == arrival->n_fds ? replay_unpack(session, &arrival->pack)
						      : -EBADMSG;

	return r == 0 ? session_check(session, &arrival->pack) : r;
}

static int answer(void)
{
	struct frame_move_step frame = {.step = MOVE_RECEIVED};
	int r = 0;

	if (arrivals.pidfd < 0 || arrivals.n != arrivals.n_expected)
		return -EBADMSG;
	for (struct arrival *arrival = arrivals.list; arrival && r == 0; arrival = arrival->next)
		r = check_pack(arrival);
	if (r < 0)
		return r;
	frame_init(&frame, FRAME_MOVE_STEP, 0);
	return frame_send(arrivals.sock, &frame, NULL, 0);
}

static void on_ended(uv_async_t *async);

/* A driver call does not return. With this process, the clients' calls end. */
static void on_late(_unused_ uv_timer_t *timer)
{
	log_line("The GPUs are not open after %d ms: the clients end",
		2 * OPEN_GRACES * arrivals.server->grace_ms);
	_exit(1);
}

/* From here on the clients are this server's. */
static void commit(void)
{
	arrivals.phase = OPENING;
	close_pair();
	log_line("%u clients come from the server before", arrivals.n);
	arrivals_notify(arrivals.server);
	arrivals.server->is_opening = true;
	/* What the daemon orders meanwhile is for clients that have their sessions. */
	daemon_link_hold();
	uv_async_init(&arrivals.server->loop, &arrivals.ended, on_ended);
	uv_timer_init(&arrivals.server->loop, &arrivals.late);
	uv_timer_start(&arrivals.late, on_late,
		2ull * OPEN_GRACES * (uint64_t)arrivals.server->grace_ms, 0);
	if (thread_start(&arrivals.thread, "mps-arrival", run_thread, NULL) < 0) {
		log_line("Cannot start a thread: the clients end");
		_exit(1);
	}
}

static int take_step(const struct frame_move_step *frame)
{
	if (frame->step == MOVE_SENT)
		return answer();
	if (frame->step != MOVE_COMMIT)
		return -EBADMSG;
	commit();
	return 0;
}

static int take_frame(void)
{
	const void *frame = arrivals.reader.bytes;

	switch (arrivals.reader.head.type) {
	case FRAME_MOVE_BEGIN:
		return take_begin(frame);
	case FRAME_MOVE_CLIENT:
		return take_client(frame);
	case FRAME_MOVE_FDS:
		return take_fds();
	case FRAME_MOVE_STEP:
		return take_step(frame);
	default:
		return -EBADMSG;
	}
}

/* The clients stay, and the command's answer says why. */
static void refuse(int r)
{
	struct frame_move_step frame = {.step = MOVE_REFUSED};
	const char *why = strerrordesc_np(-r);

	if (r == -EPROTONOSUPPORT)
		why = "the next server is of another build";
	else if (r == -EBADMSG)
		why = "what the next server was sent is wrong";
	else if (r == -ESTALE)
		why = "the next server has other GPUs";
	else if (r == -ESRCH)
		why = "the next server does not know the group of a client";
	frame_init(&frame, FRAME_MOVE_STEP, 0);
	snprintf(frame.text, sizeof(frame.text), "%s", why);
	(void)frame_send(arrivals.sock, &frame, NULL, 0);
	give_up(why);
}

static void on_event(_unused_ uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	int r = 0;

	while (arrivals.phase == COMING && r >= 0 &&
		(r = frame_read(&arrivals.reader, arrivals.sock)) > 0) {
		r = take_frame();
		if (arrivals.phase == COMING)
			frame_reader_reset(&arrivals.reader);
	}
	if (r < 0 && arrivals.phase == COMING)
		refuse(r);
}

void arrivals_expect(struct server *server)
{
	arrivals.server = server;
	arrivals.phase = EXPECTED;
	frame_reader_init(&arrivals.reader, frame_close_fd);
}

void arrivals_begin(struct server *server, _unused_ const struct frame_restart *order, int sock)
{
	if (arrivals.phase != EXPECTED || server->conns) {
		closep(&sock);
		return;
	}
	arrivals.sock = sock;
	arrivals.phase = COMING;
	if (uv_poll_init(&server->loop, &arrivals.poll, sock) < 0) {
		closep(&arrivals.sock);
		give_up("the socket cannot be watched");
		return;
	}
	arrivals.has_poll = true;
	uv_poll_start(&arrivals.poll, UV_READABLE | UV_DISCONNECT, on_event);
}

void arrivals_on_daemon_lost(_unused_ struct server *server)
{
	if (arrivals.phase == EXPECTED)
		give_up("the daemon has ended");
}

void arrivals_notify(_unused_ struct server *server)
{
	struct frame_restarted frame = {.is_done = 1};

	if (arrivals.phase != OPENING && arrivals.phase != HERE)
		return;
	for (const struct arrival *arrival = arrivals.list; arrival; arrival = arrival->next)
		client_conn_notify(arrival->conn, FRAME_CLIENT_HERE);
	frame_init(&frame, FRAME_RESTARTED, 0);
	daemon_link_send(&frame);
	for (const struct arrival *arrival = arrivals.list; arrival; arrival = arrival->next)
		if (arrival->conn->suspend_number > 0)
			suspension_notify(arrival->conn);
}

/* ---- afterwards */

/* The client's calls go on with the new page. */
static int send_page(const struct client_conn *conn)
{
	struct frame_page frame;

	frame_init(&frame, FRAME_PAGE, 1);
	return frame_send(conn->connection, &frame, &conn->memories[2], SEND_MS);
}

/* The client's connection ends if it cannot go on. */
static void enter(struct server *server, struct arrival *arrival)
{
	struct client_conn *conn = TAKE_PTR(arrival->conn);
	int r = arrival->result;

	if (r == 0) {
		session_take_words(conn->session, arrival->before, arrival->before_fd);
		r = send_page(conn);
	}
	/* Otherwise it has ended by itself. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		log_line("Client " SESSION_NAME " ends: it cannot go on in this server: %s",
			SESSION_NAME_ARGS(conn->session), strerrordesc_np(-r));
	arrival_free(arrival);
	if (client_conn_start(conn) < 0) {
		/* What it has in the driver. No thread can be started that would do it. */
		session_clean_up(conn->session);
		client_conn_notify(conn, FRAME_CLIENT_GONE);
		client_conn_free(conn);
	} else if (r < 0 || server->is_stopping || server->is_faulted)
		client_conn_end(conn);
}

/* Starts the workers of the sessions. */
static void on_ended(uv_async_t *async)
{
	struct server *server = arrivals.server;

	uv_close((uv_handle_t *)async, NULL);
	uv_close((uv_handle_t *)&arrivals.late, NULL);
	pthread_join(arrivals.thread, NULL);
	arrivals.phase = HERE;
	server->is_opening = false;
	closep(&arrivals.pidfd);
	while (arrivals.list) {
		struct arrival *arrival = LIST_POP(arrivals.list);

		enter(server, arrival);
	}
	group_link_report_moved();
	newcomers_look(server);
	daemon_link_read();
	if (server->is_stopping)
		server_stop(server, true);
}
