/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's life from its first connection to its end. Loop thread.
 *
 * Invariant: the daemon ends only when every server has ended, and then with
 * every handle closed.
 */

#include "daemon/state/daemon.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "async_close.h"
#include "cuda.h"
#include "daemon/config/allowances.h"
#include "daemon/state/partitions.h"
#include "daemon/state/record.h"
#include "daemon/state/released.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/admission.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/endpoint.h"
#include "daemon/conn/listener.h"
#include "daemon/conn/pending.h"
#include "daemon/server/namespaces.h"
#include "daemon/server/probe.h"
#include "daemon/server/server.h"
#include "daemon/server/spawn.h"
#include "daemon/server/state_text.h"
#include "daemon/server/successor.h"
#include "daemon/watch/counting.h"
#include "daemon/watch/exporter.h"
#include "daemon/watch/faults.h"
#include "daemon/watch/kernel_log.h"
#include "daemon/watch/spare.h"
#include "daemon/watch/standard_input.h"
#include "daemon/watch/suspension.h"
#include "daemon/watch/termination.h"
#include "daemon/watch/tracing.h"
#include "daemon/watch/upgrade.h"
#include "daemon/command/new_conn.h"
#include "daemon/command/reload.h"

/* The longest interval between checks for idle servers and tenants. */
#define IDLE_CHECK_MAX_MS 10000

/* Between two attempts of an action that has to wait. */
#define RETRY_MS 250

/* The time that the sender of quit has to read the answer. */
#define QUIT_REPLY_MS 1000

/* How long the end waits for systemd to take the last messages. */
#define SYSTEMD_MS 1000

/* ---- the end */

static void force_shutdown(struct daemon *daemon)
{
	daemon->is_forced = true;
	manager_say_stopping(daemon);
	list_each_safe (struct server, server, &daemon->servers, link_in_daemon)
		server_shutdown(server, true);
}

/* Tells all clients that wait for a server that the daemon is stopping. */
static void refuse_all_clients(struct daemon *daemon)
{
	struct error_message error;

	daemon_say_quitting(daemon, &error);
	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each (struct slot, slot, &tenant->slots, link)
			slot_refuse_all(slot, CUDA_ERROR_MPS_CONNECTION_FAILED, &error);
}

static void on_quit_timeout(uv_timer_t *timer)
{
	force_shutdown(timer->data);
}

/* Earlier than an earlier call said, never later. */
static void force_shutdown_later(struct daemon *daemon, uint64_t timeout_ms)
{
	uint64_t force_ms = uv_now(&daemon->loop) + timeout_ms;

	if (daemon->force_ms > 0 && daemon->force_ms <= force_ms)
		return;
	daemon->force_ms = force_ms;
	uv_timer_start(&daemon->quit_timer, on_quit_timeout, timeout_ms, 0);
}

/* A second call can only shorten the wait. */
static void quit(struct daemon *daemon)
{
	int64_t timeout_ms = daemon->quit_timeout_ms;

	if (!daemon->is_quitting) {
		daemon->is_quitting = true;
		probe_stop(daemon);
		daemon->is_applying = false;
		pending_rerun_all(&daemon->applying);
		pending_rerun_all(&daemon->counting);
		pending_rerun_all(&daemon->tracing);
		refuse_all_clients(daemon);
		spares_end(daemon);
		list_each_safe (struct server, server, &daemon->servers, link_in_daemon)
			server_shutdown(server, false);
	}
	if (timeout_ms == 0)
		force_shutdown(daemon);
	else if (timeout_ms > 0 && !daemon->is_over)
		force_shutdown_later(daemon, (uint64_t)timeout_ms);
}

/* Closes everything that is still open; the loop then ends by itself. */
static void close_everything(struct daemon *daemon)
{
	tracing_fini(daemon);
	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each_safe (struct conn, conn, &tenant->conns, link)
			conn_close(conn);
	named_servers_close(daemon);
	released_close(daemon);
	tenants_sweep(daemon);
	uv_close((uv_handle_t *)&daemon->quit_timer, NULL);
	uv_close((uv_handle_t *)&daemon->retry_timer, NULL);
	uv_close((uv_handle_t *)&daemon->idle_timer, NULL);
	uv_close((uv_handle_t *)&daemon->dmem_timer, NULL);
	kernel_log_close(daemon);
	standard_input_close();
	manager_stop(daemon);
	uv_close((uv_handle_t *)&daemon->report_timer, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(daemon->signals); i++)
		uv_close((uv_handle_t *)&daemon->signals[i], NULL);
}

static void on_quit_reply_timeout(uv_timer_t *timer)
{
	close_everything(timer->data);
}

/* Whether a connection whose quit was answered is still open: the daemon waits for it. */
static bool has_quit_conns(const struct daemon *daemon)
{
	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each (struct conn, conn, &tenant->conns, link)
			if (conn->keeps_fd)
				return true;
	return false;
}

static void resume_quit_conns(struct daemon *daemon)
{
	list_each_safe (struct conn, conn, &daemon->quit_conns, wait) {
		/* Its end of file shows the peer that this process has exited. */
		conn->keeps_fd = true;
		list_remove(&conn->wait);
		pending_end(conn);
	}
}

/* Whatever could complete a quit: it is looked at once a turn. */
static void check_quit(struct daemon *daemon)
{
	if (!daemon->is_quitting || uv_is_closing((uv_handle_t *)&daemon->quit_timer))
		return;
	if (!daemon->is_over) {
		if (!list_empty(&daemon->servers) || !list_empty(&daemon->spares))
			return;
		daemon->is_over = true;
		manager_say_stopping(daemon);
		servers_record(daemon);
		record_release(daemon->listener->directory);
		listener_stop(daemon);
		exporter_close(daemon);
		uv_timer_start(&daemon->quit_timer, on_quit_reply_timeout, QUIT_REPLY_MS, 0);
	}
	resume_quit_conns(daemon);
	if (!has_quit_conns(daemon))
		uv_timer_start(&daemon->quit_timer, on_quit_reply_timeout, 0, 0);
}

/* ---- while it runs */

static void on_idle_timer(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;

	list_each_safe (struct server, server, &daemon->servers, link_in_daemon)
		if (!slot_is_waiting(server->slot))
			server_check_idle(server);
	upgrades_look(daemon);
	spares_look(daemon);
	tenants_sweep(daemon);
	if (daemon->n_tenants == 0)
		uv_timer_stop(timer);
}

static void watch_idle(struct daemon *daemon)
{
	uint64_t idle_ms = (uint64_t)daemon->config.idle_s * 1000;
	uint64_t check_ms =
		idle_ms ? MIN(MAX(idle_ms / 4, 250), IDLE_CHECK_MAX_MS) : IDLE_CHECK_MAX_MS;

	if (daemon->n_tenants > 0 && !uv_is_active((uv_handle_t *)&daemon->idle_timer) &&
		!uv_is_closing((uv_handle_t *)&daemon->idle_timer))
		uv_timer_start(&daemon->idle_timer, on_idle_timer, check_ms, check_ms);
}

static void on_retry_timer(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;

	daemon->wants |= daemon->wants_later;
	daemon->wants_later = 0;
}

static void watch_retry(struct daemon *daemon)
{
	if (daemon->wants_later && !uv_is_active((uv_handle_t *)&daemon->retry_timer))
		uv_timer_start(&daemon->retry_timer, on_retry_timer, RETRY_MS, 0);
}

static void progress(struct daemon *daemon)
{
	struct list enders;

	list_init(&enders);
	slots_progress(daemon);
	named_servers_sweep(daemon, &enders);
	if (list_empty(&enders))
		return;
	/* What a command has said to be done survives the daemon. */
	servers_record(daemon);
	named_servers_answer(&enders);
}

/*
 * In this order: a shutdown prevents what follows, new facts about GPUs decide which server may
 * start, and the record is about the servers that then run.
 */
static const struct {
	enum want want;
	void (*act)(struct daemon *daemon);
} actions[] = {
	{WANT_QUIT, quit},
	{WANT_PROBE, probe_again},
	{WANT_PROGRESS, progress},
	{WANT_TURN_NOTICES, slots_notify_turns},
	{WANT_UPGRADES, upgrades_look},
	{WANT_SPARES, spares_look},
	{WANT_RECORD, servers_record},
};

/*
 * Between two turns of the loop: does what events of a turn have made possible or necessary. An
 * action may want others.
 */
static void settle(struct daemon *daemon)
{
	do {
		for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
			if (!(daemon->wants & actions[i].want))
				continue;
			daemon->wants &= ~(unsigned)actions[i].want;
			actions[i].act(daemon);
		}
		check_quit(daemon);
	} while (daemon->wants);
	watch_retry(daemon);
	watch_idle(daemon);
}

void daemon_turn(struct daemon *daemon, uv_run_mode mode)
{
	settle(daemon);
	uv_run(&daemon->loop, mode);
}

/* ---- the beginning */

/*
 * As the first process of a container the daemon inherits all orphans. Its
 * servers are reaped where their exit is noticed.
 */
static void reap_orphans(const struct daemon *daemon)
{
	siginfo_t info = {0};

	if (getpid() != 1)
		return;
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
		if (server_find(daemon, info.si_pid))
			return;
		if (exporter_has_pid(daemon, info.si_pid))
			return;
		waitpid(info.si_pid, NULL, 0);
		info.si_pid = 0;
	}
}

static void check_stopped_servers(struct daemon *daemon)
{
	list_each_safe (struct server, server, &daemon->servers, link_in_daemon)
		server_check_stopped(server);
	list_each_safe (struct server, spare, &daemon->spares, link_in_daemon)
		server_check_stopped(spare);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct daemon *daemon = handle->data;

	switch (number) {
	case SIGHUP:
		reload_on_hangup(daemon);
		break;
	case SIGCHLD:
		reap_orphans(daemon);
		check_stopped_servers(daemon);
		break;
	default:
		log_control(&daemon->logs, "Received signal %d: the daemon shuts down", number);
		daemon_want_quit(daemon, 0);
	}
}

static void start_signals(struct daemon *daemon)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};

	_Static_assert(ARRAY_SIZE(numbers) == ARRAY_SIZE(daemon->signals), "signals");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		uv_signal_init(&daemon->loop, &daemon->signals[i]);
		daemon->signals[i].data = daemon;
		uv_signal_start(&daemon->signals[i], on_signal, numbers[i]);
	}
}

/* Nanoseconds since 1970. */
static uint64_t wall_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The slot that the server belonged to; NULL: its user is not served. */
static struct slot *find_recorded_slot(struct daemon *daemon, const struct record *record)
{
	struct tenant *tenant =
		daemon_serves(daemon, record->uid) ? tenant_get(daemon, record->uid, -EBADF) : NULL;

	if (tenant && *record->name)
		return named_server_restore(tenant, record->name, NULL);
	if (!tenant || !record->is_isolated)
		return tenant ? &tenant->shared : NULL;
	return slot_get_isolated(tenant, record->client_uid, record->program);
}

/* Adopts the servers of a daemon that died; they look for a new daemon every DAEMON_RETRY_MS. */
static void adopt_recorded_servers(struct daemon *daemon)
{
	static struct record records[SERVERS_LIMIT];
	_cleanup_free_ char *state = NULL;
	int n = record_load(daemon->listener->directory, records, SERVERS_LIMIT, &state);

	if (n < 0)
		log_control(&daemon->logs, "Cannot read the record of servers in %s: %s",
			daemon->config.pipe_directory, strerror(-n));
	for (int i = 0; i < n; i++) {
		struct slot *slot = find_recorded_slot(daemon, &records[i]);

		if (slot && !slot->server)
			server_adopt(slot, &records[i]);
		else
			log_control(&daemon->logs,
				"Server %d of user %u of the previous daemon is not adopted: %s",
				records[i].pid, records[i].uid,
				slot ? "another server has its place" : "its user is not served");
	}
	if (state) {
		state_text_parse(daemon, state);
		endpoints_remove_stale(daemon);
	}
	servers_record(daemon);
}

/* The sums of a client are kept before commands hear that it has ended. */
static const struct server_watch *const server_watches[] = {
	&counting_watch,
	&terminations_watch,
	&suspensions_watch,
	&tracing_watch,
	&faults_watch,
	&record_watch,
	&successor_watch,
	NULL,
};

static void init_state(struct daemon *daemon)
{
	daemon->new_conn_ops = &new_conn_ops;
	daemon->server_watches = server_watches;
	list_init(&daemon->tenants);
	accounts_init(&daemon->accounts, config_subuid_path());
	list_init(&daemon->servers);
	list_init(&daemon->spares);
	list_init(&daemon->released);
	daemon->server_build = spawn_server_build();
	list_init(&daemon->quit_conns);
	list_init(&daemon->applying);
	list_init(&daemon->counting);
	list_init(&daemon->tracing);
	list_init(&daemon->suspensions);
	list_init(&daemon->traces);
	list_init(&daemon->partitions);
	groups_init(&daemon->groups);
	settings_init(&daemon->default_file);
	settings_init(&daemon->default_commands);
	daemon->start_time_ns = wall_clock_ns();
	daemon->start_ms = uv_now(&daemon->loop);
	/* They differ from those of an earlier daemon, whose servers may still use them. */
	daemon->last_client_id = daemon->start_time_ns;
}

int daemon_start(struct daemon *daemon, struct error_message *error)
{
	int r = uv_loop_init(&daemon->loop);

	if (r < 0)
		return error_message_set(
			error, r, "Cannot create an event loop: %s", uv_strerror(r));
	init_state(daemon);
	r = listener_start(daemon);
	if (r < 0)
		return error_message_set(
			error, r, "Cannot watch the control socket: %s", uv_strerror(r));
	r = async_close_start();
	if (r < 0)
		return error_message_set(error, r, "Cannot start a thread: %s", strerror(-r));
	start_signals(daemon);
	uv_timer_init(&daemon->loop, &daemon->quit_timer);
	uv_timer_init(&daemon->loop, &daemon->retry_timer);
	uv_timer_init(&daemon->loop, &daemon->idle_timer);
	uv_timer_init(&daemon->loop, &daemon->dmem_timer);
	daemon->dmem_timer.data = daemon;
	kernel_log_open(daemon);
	uv_timer_init(&daemon->loop, &daemon->report_timer);
	daemon->report_timer.data = daemon;
	daemon->quit_timer.data = daemon->retry_timer.data = daemon->idle_timer.data = daemon;
	daemon->guest_conns_max = admission_guests_max(daemon->config.servers_max);
	adopt_recorded_servers(daemon);
	manager_start(daemon);
	return 0;
}

static void note_handle(_unused_ uv_handle_t *handle, void *has_handle)
{
	*(bool *)has_handle = true;
}

/* A thread that waits for the name service or for systemd does not keep the process from ending. */
static bool is_loop_needed(struct daemon *daemon)
{
	bool has_handle = false;

	if (!daemon->is_over)
		return uv_loop_alive(&daemon->loop);
	uv_walk(&daemon->loop, note_handle, &has_handle);
	return has_handle;
}

/* The last lines and the last state are on their way, unless systemd does not read. */
static void wait_for_systemd(struct daemon *daemon)
{
	const struct timespec step = {.tv_nsec = 1000000};

	for (unsigned i = 0; i < SYSTEMD_MS; i++) {
		if (!daemon->manager.sending && !journald_is_sending(&daemon->logs.journald))
			return;
		uv_run(&daemon->loop, UV_RUN_NOWAIT);
		nanosleep(&step, NULL);
	}
}

void daemon_run(struct daemon *daemon)
{
	while (is_loop_needed(daemon))
		daemon_turn(daemon, UV_RUN_ONCE);
	reload_abandon(daemon);
	log_control(&daemon->logs, "Exit with status 0");
	wait_for_systemd(daemon);
	if (!uv_loop_alive(&daemon->loop))
		assert(uv_loop_close(&daemon->loop) == 0);
	faults_fini(&daemon->faults);
	accounts_fini(&daemon->accounts);
	devices_fini(&daemon->devices);
	groups_fini(&daemon->groups);
	usages_fini(&daemon->usages);
	config_file_fini(&daemon->config_file);
	partitions_free(&daemon->partitions);
}
