/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the service manager knows of the daemon. Loop thread.
 *
 * Invariant: a state that the service manager did not take is sent again, until
 * it has the last one. The loop never waits for the service manager.
 */

#include "manager.h"

#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "daemon.h"
#include "daemon/log/systemd.h"

/* The pause between two states: users can change the number of clients quickly. */
#define STATE_PAUSE_MS 500

/* Signs of life in the time that the watchdog allows: one or two may be lost or late. */
#define WATCHDOG_SIGNS 4

static const char *plural(unsigned n)
{
	return n == 1 ? "" : "s";
}

/* READY=1 is in each state, because the service manager may have lost the first one. */
static void compose_state(const struct daemon *daemon, char state[MANAGER_STATE_MAX])
{
	unsigned n_servers = daemon->n_servers, n_clients = daemon->n_sessions;

	const char *word = "READY", *what = "";

	if (daemon->manager.is_stopping) {
		word = "STOPPING";
		what = "Stopping: ";
	} else if (daemon->is_quitting) {
		what = "Quits when the clients have left: ";
	}
	snprintf(state, MANAGER_STATE_MAX, "%s=1\nSTATUS=%s%u server%s, %u client%s", word, what,
		n_servers, plural(n_servers), n_clients, plural(n_clients));
}

/* ---- messages */

/* Composes what the service manager has to know first. */
static enum manager_message compose_message(struct daemon *daemon)
{
	struct manager *manager = &daemon->manager;

	if (manager->reload_us > 0) {
		/* The time is for managers that compare it with that of their request to reload. */
		snprintf(manager->message, MANAGER_STATE_MAX,
			"RELOADING=1\nMONOTONIC_USEC=%" PRIu64, manager->reload_us);
		manager->reload_us = 0;
		return MESSAGE_RELOAD;
	}
	if (manager->needs_sign) {
		snprintf(manager->message, MANAGER_STATE_MAX, "WATCHDOG=1");
		manager->needs_sign = false;
		return MESSAGE_SIGN;
	}
	if (uv_is_active((uv_handle_t *)&manager->pause))
		return MESSAGE_NONE;
	compose_state(daemon, manager->message);
	return strcmp(manager->message, manager->sent) == 0 ? MESSAGE_NONE : MESSAGE_STATE;
}

static void send_message(uv_work_t *work)
{
	struct manager *manager = &((struct daemon *)work->data)->manager;

	manager->result = systemd_notify(manager->message);
}

static void on_sent(uv_work_t *work, int status);

static void send_next(struct daemon *daemon)
{
	struct manager *manager = &daemon->manager;

	if (manager->sending)
		return;
	manager->sending = compose_message(daemon);
	if (manager->sending)
		uv_queue_work(&daemon->loop, &manager->work, send_message, on_sent);
}

/* Its end lets the loop go round, which then sends a state that had to wait. */
static void on_pause_end(_unused_ uv_timer_t *timer)
{
}

/* The last state neither waits nor is it sent again. */
static void on_sent(uv_work_t *work, _unused_ int status)
{
	struct daemon *daemon = work->data;
	struct manager *manager = &daemon->manager;

	if (manager->sending == MESSAGE_RELOAD) {
		/* The state follows at once. */
		manager->sent[0] = '\0';
		uv_timer_stop(&manager->pause);
	} else if (manager->sending == MESSAGE_STATE) {
		if (manager->result == 0 || manager->is_stopping)
			memcpy(manager->sent, manager->message, sizeof(manager->sent));
		if (!manager->is_stopping)
			uv_timer_start(&manager->pause, on_pause_end, STATE_PAUSE_MS, 0);
	}
	manager->sending = MESSAGE_NONE;
	send_next(daemon);
}

static void on_prepare(uv_prepare_t *prepare)
{
	send_next(prepare->data);
}

static void on_watchdog(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;

	daemon->manager.needs_sign = true;
}

/* ---- what the daemon says */

void manager_start(struct daemon *daemon)
{
	struct manager *manager = &daemon->manager;
	uint64_t watchdog_us = systemd_watchdog_us();

	manager->is_there = systemd_has_manager();
	if (!manager->is_there)
		return;
	uv_prepare_init(&daemon->loop, &manager->prepare);
	uv_timer_init(&daemon->loop, &manager->pause);
	uv_timer_init(&daemon->loop, &manager->watchdog);
	manager->work.data = manager->prepare.data = manager->watchdog.data = daemon;
	uv_prepare_start(&manager->prepare, on_prepare);
	if (watchdog_us > 0)
		uv_timer_start(&manager->watchdog, on_watchdog, 0,
			MAX(watchdog_us / 1000 / WATCHDOG_SIGNS, 1));
}

void manager_stop(struct daemon *daemon)
{
	struct manager *manager = &daemon->manager;

	if (!manager->is_there)
		return;
	uv_close((uv_handle_t *)&manager->prepare, NULL);
	uv_close((uv_handle_t *)&manager->pause, NULL);
	uv_close((uv_handle_t *)&manager->watchdog, NULL);
}

void manager_say_reload(struct daemon *daemon)
{
	if (daemon->manager.is_there)
		daemon->manager.reload_us = now_ns() / 1000;
}

void manager_say_stopping(struct daemon *daemon)
{
	struct manager *manager = &daemon->manager;

	if (!manager->is_there || manager->is_stopping)
		return;
	manager->is_stopping = true;
	uv_timer_stop(&manager->pause);
	send_next(daemon);
}
