/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The last lines of a server's start in server.log: its settings, and that it has started. The
 * daemon writes them, because only the daemon knows the settings. Loop thread.
 */

#include "start_log.h"

#include <inttypes.h>

#include "server.h"
#include "daemon/state/tenant.h"

_printf_(2, 3) static void start_log_line(struct server *server, const char *format, ...)
{
	char text[LINE_MAX_SIZE];

	format_arguments(text, format);
	server_log_line(server, text);
}

static void log_memory(struct server *server, const struct memory_limit *limit)
{
	const struct devices *devices = &server->devices;
	bool is_found = false;

	for (unsigned i = 0; i < devices->n; i++) {
		if (!device_name_matches(limit->device, &devices->items[i]))
			continue;
		is_found = true;
		start_log_line(server,
			"Device pinned memory limit for device %u set to 0x%" PRIx64 " bytes",
			devices->items[i].ordinal, limit->bytes);
	}
	if (!is_found)
		start_log_line(server,
			"Device pinned memory limit for device %s: there is no such device",
			limit->device);
}

void start_log(struct server *server)
{
	const struct settings settings = server_settings(server, server->tenant->uid);

	/* What the server itself has said so far comes first. */
	server_read_output(server);
	start_log_line(server, "Active Threads Percentage set to %u.%u",
		settings.active_threads / 1000, settings.active_threads % 1000 / 100);
	for (unsigned i = 0; i < settings.n_memory; i++)
		log_memory(server, &settings.memory[i]);
	start_log_line(server, "Server Priority set to %d", settings.priority);
	start_log_line(server, "Server has started");
}
