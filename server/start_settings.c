/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Logs the operator's settings. main() and the loop.
 */

#include "start_settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device_name.h"
#include "limit_text.h"
#include "server/util/log.h"
#include "server/device/device.h"
#include "server/link/device_frame.h"

static struct {
	uint64_t active_threads, priority;
	unsigned n_memory;
	struct {
		char device[DEVICE_NAME_MAX];
		uint64_t bytes;
	} memory[DEVICES_MAX];
} settings = {.active_threads = ACTIVE_THREADS_ALL};

/* "DEVICE=BYTES" */
static bool read_memory(const char *value)
{
	const char *equals = strchr(value, '=');
	size_t length = equals ? (size_t)(equals - value) : 0;
	unsigned i = settings.n_memory;

	if (!equals || length >= DEVICE_NAME_MAX || i == DEVICES_MAX ||
		parse_number(equals + 1, UINT64_MAX, &settings.memory[i].bytes) < 0)
		return false;
	memcpy(settings.memory[i].device, value, length);
	settings.n_memory++;
	return true;
}

bool start_settings_read(const char *option, const char *value)
{
	if (strcmp(option, "--active-threads") == 0)
		return parse_number(value, ACTIVE_THREADS_ALL, &settings.active_threads) == 0;
	if (strcmp(option, "--priority") == 0)
		return parse_number(value, INT32_MAX, &settings.priority) == 0;
	return strcmp(option, "--memory") == 0 && read_memory(value);
}

static void log_memory(const char *name, uint64_t bytes)
{
	bool is_found = false;

	for (uint32_t i = 0; i < devices_count(); i++) {
		struct frame_device frame = device_frame(device_get(i));

		if (!device_name_matches(name, &frame))
			continue;
		is_found = true;
		log_line("Device pinned memory limit for device %u set to 0x%" PRIx64 " bytes", i,
			bytes);
	}
	if (!is_found)
		log_line("Device pinned memory limit for device %s: there is no such device", name);
}

void start_settings_log(void)
{
	log_line("Active Threads Percentage set to %u.%u", (unsigned)settings.active_threads / 1000,
		(unsigned)settings.active_threads % 1000 / 100);
	for (unsigned i = 0; i < settings.n_memory; i++)
		log_memory(settings.memory[i].device, settings.memory[i].bytes);
	log_line("Server Priority set to %u", (unsigned)settings.priority);
}
