/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the service manager knows of the daemon. Loop thread.
 *
 * Invariant: a state that the service manager did not take is sent again, until
 * it has the last one.
 */

#include "manager.h"

#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "daemon.h"
#include "daemon/log/notify.h"

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

/* Its end lets the loop go round, which then sends a state that had to wait. */
static void on_pause_end(_unused_ uv_timer_t *timer)
{
}

static void send_state(struct daemon *daemon)
{
	struct manager *manager = &daemon->manager;
	char state[MANAGER_STATE_MAX] = "";

	compose_state(daemon, state);
	if (strcmp(state, manager->sent) == 0)
		return;
	if (notify_send(manager->fd, state) == 0)
		memcpy(manager->sent, state, sizeof(state));
	uv_timer_start(&manager->pause, on_pause_end, STATE_PAUSE_MS, 0);
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct daemon *daemon = prepare->data;

	if (!uv_is_active((uv_handle_t *)&daemon->manager.pause))
		send_state(daemon);
}

static void on_watchdog(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;

	notify_send(daemon->manager.fd, "WATCHDOG=1");
}

void manager_start(struct daemon *daemon)
{
	struct manager *manager = &daemon->manager;
	uint64_t watchdog_ms = notify_watchdog_us() / 1000 / WATCHDOG_SIGNS;

	manager->fd = notify_connect();
	if (manager->fd < 0)
		return;
	uv_prepare_init(&daemon->loop, &manager->prepare);
	uv_timer_init(&daemon->loop, &manager->pause);
	uv_timer_init(&daemon->loop, &manager->watchdog);
	manager->prepare.data = manager->pause.data = manager->watchdog.data = daemon;
	uv_prepare_start(&manager->prepare, on_prepare);
	if (notify_watchdog_us() > 0)
		uv_timer_start(&manager->watchdog, on_watchdog, 0, MAX(watchdog_ms, 1));
}

void manager_stop(struct daemon *daemon)
{
	struct manager *manager = &daemon->manager;

	if (manager->fd < 0)
		return;
	uv_close((uv_handle_t *)&manager->prepare, NULL);
	uv_close((uv_handle_t *)&manager->pause, NULL);
	uv_close((uv_handle_t *)&manager->watchdog, NULL);
	closep(&manager->fd);
	manager->fd = -EBADF;
}

/* The time is for managers that compare it with the time of their own request to reload. */
void manager_begin_reload(struct daemon *daemon)
{
	char state[MANAGER_STATE_MAX];

	if (daemon->manager.fd < 0)
		return;
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_ns() / 1000);
	notify_send(daemon->manager.fd, state);
	daemon->manager.sent[0] = '\0';
}

void manager_end_reload(struct daemon *daemon)
{
	if (daemon->manager.fd >= 0)
		send_state(daemon);
}

void manager_say_stopping(struct daemon *daemon)
{
	if (daemon->manager.fd < 0 || daemon->manager.is_stopping)
		return;
	daemon->manager.is_stopping = true;
	send_state(daemon);
}
