/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The metrics over HTTP. Loop thread.
 *
 * Invariant: a suspended connection is in `waiting', and the wait timer runs; no connection is
 * open for longer than CONN_MS and a tick.
 */

#include "metrics_server.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "counting.h"
#include "http_library.h"
#include "metrics.h"
#include "daemon/config/metrics_address.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/peer_uid.h"

/*
 * Several Prometheus servers may scrape at once. A further connection of a peer ends the peer's
 * oldest one, and a further one of all peers ends the oldest one of the peer that has most. So
 * a peer with many connections does not keep others out. On this machine, a peer is an account.
 */
#define CONNS_MAX 24
#define CONNS_OF_PEER_MAX 12

/* Further ones may be on their way to their end: the library refuses connections above this. */
#define ALL_CONNS_MAX 96

/* How long a connection may last, and how long it may be silent. A page has a megabyte at most. */
#define CONN_MS 10000
#define SILENT_S 5

/* What a request may have of memory: its headers. */
#define CONN_MEMORY ((size_t)8 << 10)

/* The age of counters in a page, and the time that servers have to reply. */
#define FRESH_MS 1000

/* How often deadlines are checked. */
#define TICK_MS 1000

/*
 * Events that are handled in a tick; the others wait for PAUSE_MS. Without a free descriptor the
 * library leaves a connection unaccepted, which is an event again at once.
 */
#define EVENTS_MAX 500
#define PAUSE_MS 100

#define PAGE_PATH "/metrics"

/* Without padding, so that memcmp() compares peers. */
struct http_peer {
	uint32_t is_account;
	uint32_t account;        /* its UID, if the peer is on this machine */
	struct in6_addr address; /* else; of IPv6 the network, as a host has all of its addresses */
};

struct metrics_server {
	struct daemon *daemon;
	char address[METRICS_LISTEN_MAX];
	const struct http_library *http;
	struct MHD_Daemon *mhd;
	uv_poll_t poll;
	uv_timer_t run_timer, wait_timer;
	unsigned n_handles;
	uint64_t tick_ms;          /* when the tick began, by the loop's clock */
	unsigned n_events;         /* in the tick */
	struct MHD_Response *page; /* NULL: none yet */
	uint64_t page_ms;          /* the age of its counters, by the loop's clock */
	uint64_t asked_ms;         /* when the servers were asked */
	struct MHD_Connection *waiting[ALL_CONNS_MAX]; /* for the page */
	unsigned n_waiting;
	struct http_conn {
		int fd; /* not owned; 0: unused */
		bool is_ended;
		struct http_peer peer;
		uint64_t deadline_ms;
	} conns[ALL_CONNS_MAX];
};

/* ---- answers */

static enum MHD_Result answer_error(
	struct metrics_server *server, struct MHD_Connection *connection, unsigned status)
{
	const struct http_library *http = server->http;
	const char *text = status == MHD_HTTP_NOT_FOUND ? "The metrics are at " PAGE_PATH "\n"
			   : status == MHD_HTTP_METHOD_NOT_ALLOWED
				   ? "The metrics can be read only: use GET\n"
				   : "The MPS daemon is out of memory\n";
	struct MHD_Response *response = http->create_response_from_buffer(
		strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	http->add_response_header(response, "Content-Type", "text/plain");
	http->add_response_header(response, "Connection", "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		http->add_response_header(response, "Allow", "GET");
	result = http->queue_response(connection, status, response);
	http->destroy_response(response);
	return result;
}

static void drop_page(struct metrics_server *server)
{
	if (server->page)
		server->http->destroy_response(server->page);
	server->page = NULL;
}

/* The page of the counters that the servers were asked for at that time. */
static void make_page(struct metrics_server *server, uint64_t asked_ms)
{
	const struct http_library *http = server->http;
	_cleanup_free_ char *text = NULL;
	size_t size;

	drop_page(server);
	text = metrics_page(server->daemon, NULL, &size);
	if (text)
		server->page = http->create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
	if (!server->page)
		return;
	TAKE_PTR(text);
	http->add_response_header(server->page, "Content-Type", EXPOSITION_TYPE);
	http->add_response_header(server->page, "Connection", "close");
	server->page_ms = asked_ms;
}

static void resume_waiting(struct metrics_server *server)
{
	for (unsigned i = 0; i < server->n_waiting; i++)
		server->http->resume_connection(server->waiting[i]);
	server->n_waiting = 0;
	uv_timer_stop(&server->wait_timer);
}

static void on_run_timer(uv_timer_t *timer);

static void on_counters(struct metrics_server *server)
{
	if (server->n_waiting == 0)
		return;
	make_page(server, server->asked_ms);
	resume_waiting(server);
	uv_timer_start(&server->run_timer, on_run_timer, 0, 0);
}

void metrics_server_on_counters(struct daemon *daemon)
{
	if (daemon->metrics_server)
		on_counters(daemon->metrics_server);
}

/* A server does not reply: the page has its last counters. */
static void on_wait_timer(uv_timer_t *timer)
{
	on_counters(timer->data);
}

/* Whether the connection waits for the servers' counters. */
static bool wait_for_counters(struct metrics_server *server, struct MHD_Connection *connection)
{
	uint64_t now_ms = uv_now(&server->daemon->loop);

	if (server->n_waiting == ALL_CONNS_MAX || !counting_ask(server->daemon))
		return false;
	if (server->n_waiting == 0) {
		server->asked_ms = now_ms;
		uv_timer_start(&server->wait_timer, on_wait_timer, FRESH_MS, 0);
	}
	server->waiting[server->n_waiting++] = connection;
	server->http->suspend_connection(connection);
	return true;
}

static enum MHD_Result answer_page(struct metrics_server *server, struct MHD_Connection *connection)
{
	if (!server->page)
		return answer_error(server, connection, MHD_HTTP_SERVICE_UNAVAILABLE);
	return server->http->queue_response(connection, MHD_HTTP_OK, server->page);
}

static bool is_page_fresh(const struct metrics_server *server)
{
	return server->page && uv_now(&server->daemon->loop) - server->page_ms < FRESH_MS;
}

/* Called with the headers, then with each part of a body, then at its end; again once resumed. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
	const char *method, _unused_ const char *version, _unused_ const char *body,
	size_t *body_size, void **state)
{
	static char is_read, has_waited;
	struct metrics_server *server = arg;

	if (!*state) {
		if (strcmp(url, PAGE_PATH) != 0)
			return answer_error(server, connection, MHD_HTTP_NOT_FOUND);
		if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
			return answer_error(server, connection, MHD_HTTP_METHOD_NOT_ALLOWED);
		*state = &is_read;
		return MHD_YES;
	}
	if (*body_size > 0) {
		*body_size = 0;
		return MHD_YES;
	}
	if (*state != &has_waited && !is_page_fresh(server)) {
		*state = &has_waited;
		if (wait_for_counters(server, connection))
			return MHD_YES;
		make_page(server, uv_now(&server->daemon->loop));
	}
	return answer_page(server, connection);
}

/* ---- connections */

/* The library then finds the connection closed. */
static void end_conn(struct http_conn *conn)
{
	if (!conn->is_ended)
		shutdown(conn->fd, SHUT_RDWR);
	conn->is_ended = true;
}

static bool is_open(const struct http_conn *conn)
{
	return conn->fd != 0 && !conn->is_ended;
}

static bool is_of(const struct http_conn *conn, const struct http_peer *peer)
{
	return is_open(conn) && memcmp(&conn->peer, peer, sizeof(*peer)) == 0;
}

static unsigned count_conns(const struct metrics_server *server, const struct http_peer *peer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ALL_CONNS_MAX; i++)
		n += is_of(&server->conns[i], peer);
	return n;
}

static void end_oldest(struct metrics_server *server, const struct http_peer *peer)
{
	struct http_conn *oldest = NULL;

	for (unsigned i = 0; i < ALL_CONNS_MAX; i++) {
		struct http_conn *conn = &server->conns[i];

		if (is_of(conn, peer) && (!oldest || conn->deadline_ms < oldest->deadline_ms))
			oldest = conn;
	}
	if (oldest)
		end_conn(oldest);
}

/* If there are CONNS_MAX connections, ends the oldest one of the peer that has most. */
static void end_surplus(struct metrics_server *server)
{
	const struct http_conn *largest = NULL;
	unsigned n = 0, n_largest = 0;

	for (unsigned i = 0; i < ALL_CONNS_MAX; i++) {
		const struct http_conn *conn = &server->conns[i];
		unsigned n_of_peer = is_open(conn) ? count_conns(server, &conn->peer) : 0;

		n += is_open(conn);
		if (n_of_peer > n_largest) {
			n_largest = n_of_peer;
			largest = conn;
		}
	}
	if (n >= CONNS_MAX && largest) {
		const struct http_peer peer = largest->peer;

		end_oldest(server, &peer);
	}
}

/* Bytes of an IPv6 address that name its network. */
#define NETWORK_BYTES 8

static struct http_peer http_peer_of(
	const struct metrics_server *server, int fd, const struct sockaddr *address)
{
	struct http_peer peer = {0};
	uid_t uid;

	if (peer_uid(fd, &uid) == 0) {
		peer.is_account = true;
		peer.account = accounts_owner(&server->daemon->accounts, uid, 0);
	} else if (address->sa_family == AF_INET6) {
		const struct in6_addr *all = &((const struct sockaddr_in6 *)address)->sin6_addr;

		/* A listener on both protocols gets IPv4 addresses in this form. */
		memcpy(&peer.address, all,
			IN6_IS_ADDR_V4MAPPED(all) ? sizeof(*all) : NETWORK_BYTES);
	} else if (address->sa_family == AF_INET) {
		memcpy(&peer.address, &((const struct sockaddr_in *)address)->sin_addr,
			sizeof(struct in_addr));
	}
	return peer;
}

static struct http_conn *find_unused_conn(struct metrics_server *server)
{
	for (unsigned i = 0; i < ALL_CONNS_MAX; i++)
		if (server->conns[i].fd == 0)
			return &server->conns[i];
	return NULL;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **place,
	enum MHD_ConnectionNotificationCode code)
{
	struct metrics_server *server = arg;
	const struct http_library *http = server->http;
	const union MHD_ConnectionInfo *info;
	struct http_conn *conn = *place;
	struct http_peer peer;
	int fd;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (conn)
			conn->fd = 0;
		return;
	}
	info = http->get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	fd = info->connect_fd;
	info = http->get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	peer = http_peer_of(server, fd, info->client_addr);
	if (count_conns(server, &peer) >= CONNS_OF_PEER_MAX)
		end_oldest(server, &peer);
	end_surplus(server);
	conn = find_unused_conn(server);
	/* The library has the same bound. */
	if (!conn)
		return;
	*conn = (struct http_conn){
		.fd = fd,
		.peer = peer,
		.deadline_ms = uv_now(&server->daemon->loop) + CONN_MS,
	};
	*place = conn;
}

/* Ends connections that have reached their deadline. Whether any is open. */
static bool check_deadlines(struct metrics_server *server)
{
	uint64_t now_ms = uv_now(&server->daemon->loop);
	bool is_any_open = false;

	for (unsigned i = 0; i < ALL_CONNS_MAX; i++) {
		struct http_conn *conn = &server->conns[i];

		if (conn->fd == 0)
			continue;
		is_any_open = true;
		if (now_ms >= conn->deadline_ms)
			end_conn(conn);
	}
	return is_any_open;
}

static void metrics_server_run(struct metrics_server *server)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms = TICK_MS;
	bool has_timeout, is_any_open;

	server->http->run(server->mhd);
	has_timeout = server->http->get_timeout(server->mhd, &timeout_ms) == MHD_YES;
	is_any_open = check_deadlines(server);
	if (has_timeout || is_any_open)
		uv_timer_start(&server->run_timer, on_run_timer,
			MIN((uint64_t)timeout_ms, (uint64_t)TICK_MS), 0);
	else
		uv_timer_stop(&server->run_timer);
}

static void on_http_event(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	struct metrics_server *server = poll->data;
	uint64_t now_ms = uv_now(&server->daemon->loop);

	if (now_ms - server->tick_ms >= TICK_MS) {
		server->tick_ms = now_ms;
		server->n_events = 0;
	}
	if (++server->n_events <= EVENTS_MAX) {
		metrics_server_run(server);
		return;
	}
	uv_poll_stop(poll);
	uv_timer_start(&server->run_timer, on_run_timer, PAUSE_MS, 0);
}

static void on_run_timer(uv_timer_t *timer)
{
	struct metrics_server *server = timer->data;

	/* Also ends a pause. */
	uv_poll_start(&server->poll, UV_READABLE, on_http_event);
	metrics_server_run(server);
}

/* ---- the listener */

static void on_server_closed(uv_handle_t *handle)
{
	struct metrics_server *server = handle->data;

	if (--server->n_handles == 0)
		free(server);
}

void metrics_server_close(struct daemon *daemon)
{
	struct metrics_server *server = daemon->metrics_server;

	if (!server)
		return;
	daemon->metrics_server = NULL;
	resume_waiting(server);
	/* Before the library closes the descriptor. */
	uv_close((uv_handle_t *)&server->poll, on_server_closed);
	uv_close((uv_handle_t *)&server->run_timer, on_server_closed);
	uv_close((uv_handle_t *)&server->wait_timer, on_server_closed);
	server->http->stop_daemon(server->mhd);
	drop_page(server);
}

/* Takes `fd', on failure too. */
static struct MHD_Daemon *start_http(struct metrics_server *server, int fd)
{
	struct MHD_Daemon *mhd = server->http->start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, server,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)ALL_CONNS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONN_MEMORY, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, server, MHD_OPTION_END);

	if (!mhd)
		close(fd);
	return mhd;
}

static int watch_http(struct metrics_server *server)
{
	uv_loop_t *loop = &server->daemon->loop;
	const union MHD_DaemonInfo *info =
		server->http->get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	int r = info ? uv_poll_init(loop, &server->poll, info->epoll_fd) : -ENOSYS;

	if (r < 0)
		return r;
	uv_timer_init(loop, &server->run_timer);
	uv_timer_init(loop, &server->wait_timer);
	server->poll.data = server->run_timer.data = server->wait_timer.data = server;
	server->n_handles = 3;
	return uv_poll_start(&server->poll, UV_READABLE, on_http_event);
}

/* Takes `fd', on failure too. */
static int metrics_server_open(struct daemon *daemon, const char *address, int fd)
{
	_cleanup_close_ int owned_fd = fd;
	_cleanup_free_ struct metrics_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	server->daemon = daemon;
	snprintf(server->address, sizeof(server->address), "%s", address);
	server->http = http_library_load();
	if (!server->http)
		return -ELIBACC;
	server->mhd = start_http(server, TAKE_FD(owned_fd));
	if (!server->mhd)
		return -ENOMEM;
	r = watch_http(server);
	if (r < 0) {
		server->http->stop_daemon(server->mhd);
		return r;
	}
	daemon->metrics_server = TAKE_PTR(server);
	return 0;
}

int metrics_server_listen(struct daemon *daemon, const char *address, struct error_message *error)
{
	const char *host = strchr(address, ':') ? "" : METRICS_HOST_DEFAULT ":";
	struct metrics_address parsed;
	int r;

	if (daemon->metrics_server && strcmp(daemon->metrics_server->address, address) == 0)
		return 0;
	metrics_server_close(daemon);
	if (!*address)
		return 0;
	r = metrics_address_parse(address, &parsed) ? metrics_address_listen(&parsed) : -EINVAL;
	if (r >= 0)
		r = metrics_server_open(daemon, address, r);
	if (r == -ELIBACC)
		return error_message_set(error, r,
			"Cannot listen on %s%s for the metrics: libmicrohttpd.so.12 is missing: "
			"install libmicrohttpd12, then reload",
			host, address);
	if (r < 0)
		return error_message_set(error, r,
			"Cannot listen on %s%s for the metrics: %s: set metrics_listen to another "
			"address, or reload when this one is free",
			host, address, strerror(-r));
	log_control(
		&daemon->logs, "The metrics can be read at http://%s%s" PAGE_PATH, host, address);
	return 0;
}
