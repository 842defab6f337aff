/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The metrics over HTTP.
 *
 * Invariant: a suspended connection is in `waiting'; no connection is open for longer than CONN_MS
 * and a tick.
 */

#include "http.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "pages.h"
#include "peer_uid.h"
#include "daemon/text/exposition.h"
#include "daemon/state/account.h"

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

/* The age of counters in a page. */
#define FRESH_MS 1000

/* The time that the daemon has to reply; it gives its servers a second. */
#define WAIT_MS 4000

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

struct http {
	struct accounts accounts;
	struct pages pages;
	struct MHD_Daemon *mhd;
	uint64_t tick_ms;          /* when the tick began */
	unsigned n_events;         /* in the tick */
	struct MHD_Response *page; /* NULL: there is none, because of `why' */
	const char *why;
	uint64_t page_ms;                              /* the age of its counters */
	uint64_t asked_ms;                             /* when the daemon was asked */
	struct MHD_Connection *waiting[ALL_CONNS_MAX]; /* for the page */
	unsigned n_waiting;
	uint64_t waiting_ms; /* since when */
	struct http_conn {
		int fd; /* not owned; 0: unused */
		bool is_ended;
		struct http_peer peer;
		uint64_t deadline_ms;
	} conns[ALL_CONNS_MAX];
};

/* ---- answers */

static enum MHD_Result answer_error(
	struct http *http, struct MHD_Connection *connection, unsigned status)
{
	const char *text = status == MHD_HTTP_NOT_FOUND ? "The metrics are at " PAGE_PATH "\n"
			   : status == MHD_HTTP_METHOD_NOT_ALLOWED
				   ? "The metrics can be read only: use GET\n"
				   : http->why;
	struct MHD_Response *response =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", "text/plain");
	MHD_add_response_header(response, "Connection", "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static void drop_page(struct http *http, const char *why)
{
	if (http->page)
		MHD_destroy_response(http->page);
	http->page = NULL;
	http->why = why;
}

static void make_page(struct http *http, const char *text, size_t size)
{
	drop_page(http, "The MPS daemon is out of memory\n");
	/* Else it is a line that says why there is no page. */
	if (size > 0 && *text == '#')
		http->page =
			MHD_create_response_from_buffer(size, (void *)text, MHD_RESPMEM_MUST_COPY);
	if (!http->page)
		return;
	MHD_add_response_header(http->page, "Content-Type", EXPOSITION_TYPE);
	MHD_add_response_header(http->page, "Connection", "close");
	http->page_ms = http->asked_ms;
}

/* They go on in the next MHD_run(). */
static void answer_waiting(struct http *http)
{
	for (unsigned i = 0; i < http->n_waiting; i++)
		MHD_resume_connection(http->waiting[i]);
	http->n_waiting = 0;
}

static void on_reply(struct pages *pages, const char *reply, size_t size)
{
	struct http *http = container_of(pages, struct http, pages);

	make_page(http, reply, size);
	answer_waiting(http);
}

static void check_waiting(struct http *http)
{
	if (http->n_waiting == 0 || now_ms() - http->waiting_ms < WAIT_MS)
		return;
	drop_page(http, "The MPS daemon does not answer\n");
	answer_waiting(http);
}

/* The connection waits for the next page; false: it has waited too long for one already. */
static bool wait_for_page(struct http *http, struct MHD_Connection *connection)
{
	if (http->n_waiting == ALL_CONNS_MAX)
		return false;
	if (!http->pages.is_asking)
		http->asked_ms = now_ms();
	pages_ask(&http->pages);
	if (http->n_waiting == 0)
		http->waiting_ms = now_ms();
	http->waiting[http->n_waiting++] = connection;
	MHD_suspend_connection(connection);
	return true;
}

static enum MHD_Result answer_page(struct http *http, struct MHD_Connection *connection)
{
	if (!http->page)
		return answer_error(http, connection, MHD_HTTP_SERVICE_UNAVAILABLE);
	return MHD_queue_response(connection, MHD_HTTP_OK, http->page);
}

static bool is_page_fresh(const struct http *http)
{
	return http->page && now_ms() - http->page_ms < FRESH_MS;
}

/* Called with the headers, then with each part of a body, then at its end; again once resumed. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
	const char *method, _unused_ const char *version, _unused_ const char *body,
	size_t *body_size, void **state)
{
	static char is_read, has_waited;
	struct http *http = arg;

	if (!*state) {
		if (strcmp(url, PAGE_PATH) != 0)
			return answer_error(http, connection, MHD_HTTP_NOT_FOUND);
		if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
			return answer_error(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED);
		*state = &is_read;
		return MHD_YES;
	}
	if (*body_size > 0) {
		*body_size = 0;
		return MHD_YES;
	}
	if (*state != &has_waited && !is_page_fresh(http)) {
		*state = &has_waited;
		if (wait_for_page(http, connection))
			return MHD_YES;
	}
	return answer_page(http, connection);
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

static unsigned count_conns(const struct http *http, const struct http_peer *peer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ALL_CONNS_MAX; i++)
		n += is_of(&http->conns[i], peer);
	return n;
}

static void end_oldest(struct http *http, const struct http_peer *peer)
{
	struct http_conn *oldest = NULL;

	for (unsigned i = 0; i < ALL_CONNS_MAX; i++) {
		struct http_conn *conn = &http->conns[i];

		if (is_of(conn, peer) && (!oldest || conn->deadline_ms < oldest->deadline_ms))
			oldest = conn;
	}
	if (oldest)
		end_conn(oldest);
}

/* If there are CONNS_MAX connections, ends the oldest one of the peer that has most. */
static void end_surplus(struct http *http)
{
	const struct http_conn *largest = NULL;
	unsigned n = 0, n_largest = 0;

	for (unsigned i = 0; i < ALL_CONNS_MAX; i++) {
		const struct http_conn *conn = &http->conns[i];
		unsigned n_of_peer = is_open(conn) ? count_conns(http, &conn->peer) : 0;

		n += is_open(conn);
		if (n_of_peer > n_largest) {
			n_largest = n_of_peer;
			largest = conn;
		}
	}
	if (n >= CONNS_MAX && largest) {
		const struct http_peer peer = largest->peer;

		end_oldest(http, &peer);
	}
}

/* Bytes of an IPv6 address that name its network. */
#define NETWORK_BYTES 8

static struct http_peer http_peer_of(struct http *http, int fd, const struct sockaddr *address)
{
	struct http_peer peer = {0};
	uid_t uid;

	if (peer_uid(fd, &uid) == 0) {
		peer.is_account = true;
		peer.account = accounts_owner(&http->accounts, uid, 0);
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

static struct http_conn *find_unused_conn(struct http *http)
{
	for (unsigned i = 0; i < ALL_CONNS_MAX; i++)
		if (http->conns[i].fd == 0)
			return &http->conns[i];
	return NULL;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **place,
	enum MHD_ConnectionNotificationCode code)
{
	struct http *http = arg;
	const union MHD_ConnectionInfo *info;
	struct http_conn *conn = *place;
	struct http_peer peer;
	int fd;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (conn)
			conn->fd = 0;
		return;
	}
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	fd = info->connect_fd;
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	peer = http_peer_of(http, fd, info->client_addr);
	if (count_conns(http, &peer) >= CONNS_OF_PEER_MAX)
		end_oldest(http, &peer);
	end_surplus(http);
	conn = find_unused_conn(http);
	/* The library has the same bound. */
	if (!conn)
		return;
	*conn = (struct http_conn){
		.fd = fd,
		.peer = peer,
		.deadline_ms = now_ms() + CONN_MS,
	};
	*place = conn;
}

/* Ends connections that have reached their deadline. Whether any is open. */
static bool check_deadlines(struct http *http)
{
	uint64_t now = now_ms();
	bool is_any_open = false;

	for (unsigned i = 0; i < ALL_CONNS_MAX; i++) {
		struct http_conn *conn = &http->conns[i];

		if (conn->fd == 0)
			continue;
		is_any_open = true;
		if (now >= conn->deadline_ms)
			end_conn(conn);
	}
	return is_any_open;
}

/* More events than a tick may have wait a little. */
static void limit_events(struct http *http)
{
	if (now_ms() - http->tick_ms >= TICK_MS) {
		http->tick_ms = now_ms();
		http->n_events = 0;
	}
	if (++http->n_events > EVENTS_MAX)
		poll(NULL, 0, PAUSE_MS);
}

/* ---- the program */

static struct MHD_Daemon *start_http(struct http *http, int listener)
{
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request,
		http, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)ALL_CONNS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONN_MEMORY, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, http, MHD_OPTION_END);
}

/* Until the next event, or until a deadline may have passed. */
static void wait_for_events(struct http *http, int epoll)
{
	struct pollfd fds[] = {
		{.fd = http->pages.fd, .events = POLLIN},
		{.fd = epoll, .events = POLLIN},
	};
	MHD_UNSIGNED_LONG_LONG timeout_ms = TICK_MS;
	bool has_timeout = MHD_get_timeout(http->mhd, &timeout_ms) == MHD_YES;
	int wait_ms = (int)MIN((uint64_t)timeout_ms, (uint64_t)TICK_MS);

	if (poll(fds, ARRAY_SIZE(fds), check_deadlines(http) || has_timeout ? wait_ms : -1) <= 0)
		return;
	if (fds[0].revents)
		pages_read(&http->pages);
	if (fds[1].revents)
		limit_events(http);
}

int http_run(int listener, int daemon, const char *subuid_path)
{
	static struct http http = {.pages.on_reply = on_reply};
	const union MHD_DaemonInfo *info;

	accounts_init(&http.accounts, subuid_path);
	http.pages.fd = daemon;
	http.mhd = start_http(&http, listener);
	info = http.mhd ? MHD_get_daemon_info(http.mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	while (info) {
		wait_for_events(&http, info->epoll_fd);
		check_waiting(&http);
		MHD_run(http.mhd);
	}
	return EXIT_FAILURE;
}
