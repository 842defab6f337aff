/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Departures: the loop, the thread that sends, and the wait of the worker.
 *
 * Invariant: while session::is_leaving, neither the worker nor the loop changes the session, and
 * only the thread reads its pack.
 */

#include "departure.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "bounds.h"
#include "clock.h"
#include "dropped.h"
#include "replay.h"
#include "rescue.h"
#include "ring.h"
#include "server.h"
#include "shm.h"
#include "spec_hash.h"
#include "suspension.h"
#include "server/util/log.h"
#include "server/util/thread.h"
#include "server/session/at_work.h"
#include "server/session/fault.h"
#include "server/session/session_move.h"
#include "server/session/session_part.h"
#include "server/schedule/probation.h"
#include "server/share/eviction.h"
#include "server/stream/stream.h"
#include "server/memory/away.h"
#include "server/link/client.h"
#include "server/link/daemon_link.h"

/* How long the successor may take to read a frame, and to answer. */
#define SEND_MS 5000
#define ANSWER_MS 20000

/* How often a worker looks whether the work, or the departure, has ended, at first and later. */
#define LOOK_MIN_MS 1
#define LOOK_MAX_MS 20

/* How long a host function may run that work waits for at a fault. */
#define HOST_MS 300

static struct {
	enum {
		NOBODY_LEAVES,
		WORK_ENDS, /* the workers pack their sessions */
		SENDING,   /* the thread runs */
	} phase;
	int sock;
	bool force;
	bool is_rescue;       /* after a fault: the socket may come later (rescue.h) */
	uint64_t deadline_ms; /* for the clients' work, by the loop's clock */
	struct server *server;
	pthread_t thread;
	struct client_conn **leaving; /* owned; those that leave */
	unsigned n_leaving;
	int result;              /* of the thread */
	char why[MOVE_TEXT_MAX]; /* the successor's words, if it has refused; of the thread */
	atomic_bool is_over;     /* the thread has failed */
} departure = {.sock = -EBADF};

/* ---- the worker */

static bool goes_on(const struct session *session)
{
	return atomic_load(&session->is_moving) &&
	       (!atomic_load(&session->is_ending) || atomic_load(&session->is_leaving));
}

static void set_departure(struct session *session, enum departure state)
{
	if (atomic_exchange(&session->departure, state) != state)
		session->on_news(session->on_news_arg);
}

/* Whether it is lost, and the client has not been told yet, what the session had on a GPU. */
static bool has_to_drop(const struct session *session)
{
	return fault_drops(session) && !atomic_load(&session->has_dropped);
}

/* Nothing of the session is on a GPU any more. Here no driver's answer counts any more. */
static const char *stays_after_fault(struct session *session)
{
	const char *why = has_to_drop(session) ? dropped_begin(session) : NULL;

	if (!why && !streams_rest_spared(session))
		why = "work of it waits for a host function";
	if (!why)
		session_set_at_work(session, false);
	return why;
}

/* The session is at rest. What has ended with its work is given back first. */
static void pack_up(struct session *session, uint64_t since_ms)
{
	const char *why = fault_get() == CUDA_SUCCESS ? NULL : stays_after_fault(session);
	int r = 0;

	/* A host function behind dropped work has been asked for. */
	if (why && atomic_load(&session->has_dropped) && now_ms() - since_ms < HOST_MS)
		return;
	each_part(session_parts, poll, session);
	session->stays = why ? why : session_stays(session);
	if (!session->stays)
		r = replay_pack(session, &session->pack);
	if (!session->stays && r == 0)
		r = session_pack(session, &session->pack);
	if (r < 0)
		session->stays = strerrordesc_np(-r);
	if (session->stays)
		pack_fini(&session->pack);
	set_departure(session, session->stays ? DEPARTURE_STAYS : DEPARTURE_PACKED);
}

/* Another client needs space on a GPU before its own work can end. */
static void make_space_for_others(struct session *session)
{
	const unsigned wanted = WANTED_TRIM | WANTED_EVICTION | WANTED_TURN_END;

	if (atomic_load(&session->is_leaving) || fault_get() != CUDA_SUCCESS ||
		!(atomic_load(&session->memory_wanted) & wanted))
		return;
	pack_fini(&session->pack);
	away_serve(session);
	set_departure(session, DEPARTURE_AT_WORK);
}

void departure_hold(struct session *session)
{
	const uint64_t since_ms = now_ms();
	int sleep_ms = LOOK_MIN_MS;

	while (goes_on(session)) {
		uint32_t state = atomic_load(&session->departure);

		/* The loop has found that the fault costs it something (rescue.h). */
		if (state == DEPARTURE_PACKED && has_to_drop(session)) {
			pack_fini(&session->pack);
			state = DEPARTURE_AT_WORK;
		}
		if (state != DEPARTURE_PACKED && state != DEPARTURE_STAYS) {
			set_departure(session, DEPARTURE_AT_WORK);
			if (fault_get() != CUDA_SUCCESS ||
				suspension_look(session) == SUSPENSION_AT_REST)
				pack_up(session, since_ms);
		} else
			make_space_for_others(session);
		/* hold() may have interrupted it before it sleeps. */
		ring_pause(&session->receiver, sleep_ms);
		sleep_ms = MIN(2 * sleep_ms, LOOK_MAX_MS);
	}
	pack_fini(&session->pack);
	atomic_store(&session->departure, DEPARTURE_NONE);
}

void departure_note(struct session *session)
{
	const char *why = session_stays(session);

	atomic_fetch_and(&session->memory_wanted, ~WANTED_STAYS);
	session->stays_at = session->n_messages + 1;
	atomic_store(&session->told_stays, why ? why : MOVES_TEXT);
}

bool departure_is_noted(const struct session *session)
{
	return session->stays_at == session->n_messages + 1;
}

/* ---- the thread */

/* Calls wait from now on; threads that sleep look again soon. */
static void set_moving(const struct session *session, bool is_moving)
{
	struct page __shm *page = session->page;

	shm_replace32(&page->fault, is_moving ? 0 : FAULT_MOVING, is_moving ? FAULT_MOVING : 0);
	for (unsigned i = 0; i < REPLY_SLOTS; i++)
		if (shm_load32(&session->ring->waiting[i]))
			shm_wake(&page->reply[i].head.seq);
	for (uint32_t i = 0; i < session->n_marks; i++)
		shm_wake(shm_low_half(&page->timeline[i]));
}

static void set_all_moving(bool is_moving)
{
	for (unsigned i = 0; i < departure.n_leaving; i++)
		set_moving(departure.leaving[i]->session, is_moving);
}

static int send_begin(void)
{
	struct frame_move_begin frame = {
		.move_hash = MOVE_HASH, .version = FRAME_VERSION, .n_clients = departure.n_leaving};
	_cleanup_close_ int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (self < 0)
		return -errno;
	frame_init(&frame, FRAME_MOVE_BEGIN, 1);
	return frame_send(departure.sock, &frame, &self, SEND_MS);
}

static int send_fds(const struct pack *pack)
{
	int r = 0;

	for (uint32_t at = 0; at < pack->n_fds && r == 0;) {
		unsigned n = MIN(pack->n_fds - at, (uint32_t)FRAME_FDS_MAX);
		struct frame_move_fds frame;

		frame_init(&frame, FRAME_MOVE_FDS, n);
		r = frame_send(departure.sock, &frame, pack->fds + at, SEND_MS);
		at += n;
	}
	return r;
}

static struct frame_client describe_client(const struct client_conn *conn)
{
	const struct session *session = conn->session;
	struct frame_client client = {
		.id = conn->id,
		.pid = (uint64_t)conn->pid,
		.uid = (uint32_t)session->uid,
		.gid = conn->gid,
		.group = session->group ? session->group->id : 0,
		.account = conn->account,
		.limits = session->limits,
		.hello = {.program = conn->program, .continues = session->continues},
	};

	for (unsigned i = 0; i < CGROUP_LEVELS_MAX && session->cgroups[i]; i++)
		client.cgroups[i] = session->cgroups[i]->id;
	client.limits.probation_ms = MAX(probation_left_ms(session), conn->probation_ms);
	memcpy(client.hello.command, conn->command, sizeof(client.hello.command));
	return client;
}

static int send_client(const struct client_conn *conn)
{
	const struct session *session = conn->session;
	struct frame_move_client frame = {
		.size = session->pack.size,
		.n_fds = session->pack.n_fds,
		.session = session->id,
		.is_suspended = atomic_load(&session->is_suspended),
		.suspend_number = conn->suspend_number,
		.suspected_ms = conn->suspected_ms,
		.client = describe_client(conn),
	};
	_cleanup_close_ int state = -EBADF;
	int r = pack_store(&session->pack, &state);

	if (r == 0) {
		const int fds[FRAME_MOVE_CLIENT_FDS] = {conn->connection, conn->memories[0],
			conn->memories[1], conn->memories[2], state};

		frame_init(&frame, FRAME_MOVE_CLIENT, FRAME_MOVE_CLIENT_FDS);
		r = frame_send(departure.sock, &frame, fds, SEND_MS);
	}
	return r == 0 ? send_fds(&session->pack) : r;
}

static int send_step(enum move_step step)
{
	struct frame_move_step frame = {.step = step};

	frame_init(&frame, FRAME_MOVE_STEP, 0);
	return frame_send(departure.sock, &frame, NULL, SEND_MS);
}

static int await_answer(void)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	const struct frame_move_step *frame = (const void *)reader.bytes;
	int r;

	frame_reader_init(&reader, frame_close_fd);
	r = frame_read_wait(&reader, departure.sock, ANSWER_MS);
	if (r < 0)
		return r;
	if (frame->head.type != FRAME_MOVE_STEP || !frame_text_ok(frame->text, MOVE_TEXT_MAX))
		return -EBADMSG;
	if (frame->step == MOVE_REFUSED)
		memcpy(departure.why, frame->text, MOVE_TEXT_MAX);
	return frame->step == MOVE_RECEIVED ? 0 : -EBADMSG;
}

static int send_all(void)
{
	int r = send_begin();

	for (unsigned i = 0; i < departure.n_leaving && r == 0; i++)
		r = send_client(departure.leaving[i]);
	if (r == 0)
		r = send_step(MOVE_SENT);
	if (r == 0)
		return await_answer();
	/* It may have said why it has closed its end. */
	if (r == -EPIPE || r == -ECONNRESET)
		(void)await_answer();
	return r;
}

static void *run_thread(_unused_ void *arg)
{
	int r = send_all();

	if (r == 0) {
		set_all_moving(true);
		r = send_step(MOVE_COMMIT);
		/* The sessions are the successor's. */
		if (r == 0) {
			log_line("All clients have moved to the next server");
			_exit(0);
		}
		set_all_moving(false);
	}
	departure.result = r;
	atomic_store(&departure.is_over, true);
	uv_async_send(&departure.server->news);
	return NULL;
}

/* ---- the loop */

static void hold(struct session *session, bool is_moving)
{
	atomic_store(&session->is_leaving, false);
	atomic_store(&session->is_moving, is_moving);
	atomic_store(&session->is_held, is_moving || atomic_load(&session->is_suspended));
	ring_interrupt(&session->receiver);
}

/*
 * Also clients that have come from the server before since the last call. A worker may have been
 * about to sleep at that call.
 */
static void hold_all(struct server *server)
{
	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		if (conn->is_inactive)
			continue;
		if (!atomic_load(&conn->session->is_moving))
			hold(conn->session, true);
		else if (atomic_load(&conn->session->departure) == DEPARTURE_NONE)
			ring_interrupt(&conn->session->receiver);
	}
}

/* Every client goes on in this server. `pid' is that of the one that could not move, or 0. */
static void stay(struct server *server, pid_t pid, const char *text)
{
	struct frame_restarted frame = {.pid = pid > 0 ? (uint64_t)pid : 0};

	departure.phase = NOBODY_LEAVES;
	departure.is_rescue = false;
	closep(&departure.sock);
	departure.sock = -EBADF;
	free(TAKE_PTR(departure.leaving));
	daemon_link_await_successor(false);
	if (server->is_faulted)
		rescue_end(server, text);
	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		conn->stays_behind = false;
		hold(conn->session, false);
	}
	if (server->is_faulted)
		log_line("No client moves to the next server: %s", text);
	else if (pid > 0)
		log_line("The clients stay with this server: client %d cannot move: %s", (int)pid,
			text);
	else
		log_line("The clients stay with this server: %s", text);
	frame_init(&frame, FRAME_RESTARTED, 0);
	snprintf(frame.text, sizeof(frame.text), "%s", text);
	daemon_link_send(&frame);
	daemon_link_read();
}

void departure_begin(struct server *server, const struct frame_restart *order, int sock)
{
	if (departure.is_rescue && departure.sock < 0) {
		departure.sock = sock;
		uv_async_send(&server->news);
		return;
	}
	if (departure.phase != NOBODY_LEAVES || server->is_faulted) {
		closep(&sock);
		return;
	}
	departure.sock = sock;
	departure.server = server;
	departure.force = order->force != 0;
	departure.deadline_ms = uv_now(&server->loop) + MIN(order->timeout_ms, (uint64_t)INT32_MAX);
	departure.phase = WORK_ENDS;
	log_line("The clients move to the next server");
	hold_all(server);
	if (server->is_stopping)
		departure_cancel(server, "the server is stopping");
}

void departure_rescue(struct server *server)
{
	/* They are on their way. */
	if (departure.phase == SENDING)
		return;
	departure.server = server;
	departure.is_rescue = true;
	departure.deadline_ms = uv_now(&server->loop) + RESCUE_MS;
	departure.phase = WORK_ENDS;
	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (rescue_takes(conn))
			hold(conn->session, true);
	daemon_link_await_successor(true);
	daemon_link_read();
}

void departure_on_daemon_lost(struct server *server)
{
	if (departure.is_rescue && departure.sock < 0)
		stay(server, 0, "the daemon has ended");
}

static bool moves(const struct client_conn *conn)
{
	return !conn->is_inactive && !conn->stays_behind;
}

/*
 * A client that is not ready, and the reason; NULL: there is none. One that cannot move comes
 * before those whose work may still end, so that nobody waits for these in vain.
 */
static struct client_conn *find_unready(
	struct server *server, const char **ret_why, bool *ret_waits)
{
	struct client_conn *found = NULL;

	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		uint32_t state = atomic_load(&conn->session->departure);

		if (!moves(conn) || (state == DEPARTURE_PACKED && !conn->is_ending) ||
			(found && (state != DEPARTURE_STAYS || conn->is_ending)))
			continue;
		*ret_waits = state != DEPARTURE_STAYS || conn->is_ending;
		*ret_why = *ret_waits ? "it still has work on a GPU" : conn->session->stays;
		if (conn->is_ending)
			*ret_why = "it has left, and is not gone";
		found = conn;
	}
	return found;
}

/* The same after a fault. */
static bool are_rescued(struct server *server, bool is_late)
{
	bool is_ready = rescue_look(server);

	if (!rescue_has_any(server))
		stay(server, 0, "none can");
	else if (is_late)
		stay(server, 0, "no server has started in time");
	else
		return is_ready && departure.sock >= 0 && daemon_link_is_flushed();
	return false;
}

static struct client_conn *find_lacking(const struct server *server)
{
	struct client_conn *conn = server->conns;

	while (conn && !(moves(conn) && client_lacks_others(conn, server->conns, moves)))
		conn = conn->next;
	return conn;
}

static void leave_behind(struct client_conn *conn, const char *why)
{
	log_line("Client " SESSION_NAME " ends with this server: %s",
		SESSION_NAME_ARGS(conn->session), why);
	conn->stays_behind = true;
}

/* When all are at rest: whether what they need moves with them. */
static bool are_complete(struct server *server)
{
	struct client_conn *conn;

	while ((conn = find_lacking(server))) {
		if (!departure.force) {
			stay(server, conn->pid, "it uses memory of a client that has ended");
			return false;
		}
		leave_behind(conn, "it uses memory or an event of a client that ends");
	}
	return true;
}

/* Whether all clients are ready. May end the departure. */
static bool are_ready(struct server *server)
{
	bool is_late = uv_now(&server->loop) >= departure.deadline_ms, waits;
	struct client_conn *conn;
	const char *why;

	if (departure.is_rescue)
		return are_rescued(server, is_late);

	/* Clients of the server before are on the list when their GPUs are open. */
	if (server->is_opening) {
		if (is_late)
			stay(server, 0, "the server is still opening GPUs for its clients");
		return false;
	}
	hold_all(server);
	if (server->newcomers || !daemon_link_is_flushed()) {
		if (is_late)
			stay(server, 0, "the server has clients that wait for their welcome");
		return false;
	}
	while ((conn = find_unready(server, &why, &waits))) {
		if (waits && !is_late)
			return false;
		if (!departure.force) {
			stay(server, conn->pid, why);
			return false;
		}
		leave_behind(conn, why);
	}
	return are_complete(server);
}

/* Without its ID, the next server would not know the group. */
static bool has_lost_group(const struct session *session)
{
	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++)
		if (session_group(session, i) && !group_is_known(session_group(session, i)))
			return true;
	return false;
}

static void send_off(struct server *server)
{
	departure.n_leaving = 0;
	departure.leaving = calloc(server->n_conns + 1, sizeof(struct client_conn *));
	if (!departure.leaving) {
		stay(server, 0, strerrordesc_np(ENOMEM));
		return;
	}
	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		if (!moves(conn) || (departure.is_rescue && !rescue_takes(conn)))
			continue;
		if (has_lost_group(conn->session)) {
			stay(server, conn->pid, "the daemon does not know its group");
			return;
		}
		if (departure.is_rescue)
			rescue_note(conn);
		atomic_store(&conn->session->is_leaving, true);
		departure.leaving[departure.n_leaving++] = conn;
	}
	departure.phase = SENDING;
	departure.why[0] = '\0';
	atomic_store(&departure.is_over, false);
	/* What the daemon orders meanwhile is for the server that has the clients then. */
	daemon_link_hold();
	if (thread_start(&departure.thread, "mps-departure", run_thread, NULL) < 0)
		stay(server, 0, "the server cannot start a thread");
}

bool departure_look(struct server *server)
{
	if (departure.phase == SENDING && atomic_load(&departure.is_over)) {
		pthread_join(departure.thread, NULL);
		stay(server, 0,
			departure.why[0] ? departure.why : strerrordesc_np(-departure.result));
	}
	if (departure.phase == WORK_ENDS && are_ready(server))
		send_off(server);
	return departure.phase != NOBODY_LEAVES;
}

void departure_cancel(struct server *server, const char *why)
{
	if (departure.phase == WORK_ENDS)
		stay(server, 0, why);
}
