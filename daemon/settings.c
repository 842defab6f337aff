/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Settings of the operator. Loop thread; settings_load() runs before the loop.
 *
 * Invariant: each GPU has at most one memory limit, as far as GPUs are known.
 */

#include <string.h>
#include <strings.h>

#include "limit_text.h"
#include "settings.h"
#include "tokenize.h"

void settings_init(struct settings *settings)
{
	*settings = (struct settings){.priority = -1};
}

struct settings settings_of_server(const struct settings *defaults)
{
	struct settings settings = *defaults;

	settings.priority = -1;
	return settings;
}

/* ---- numbers */

int parse_priority(const char *text, int32_t *ret_priority)
{
	uint64_t number;

	if (parse_number(text, PRIORITY_MAX, &number) < 0)
		return -EINVAL;
	*ret_priority = (int32_t)number;
	return 0;
}

void format_percentage(uint32_t thousandths, char *text, size_t size)
{
	snprintf(text, size, "%u.%u", thousandths / 1000, thousandths % 1000 / 100);
}

/* ---- memory */

/* Whether two names mean the same GPU, as far as that is known. */
static bool is_same_device(const struct devices *devices, const char *one, const char *other)
{
	const struct frame_device *a, *b;

	if (strcasecmp(one, other) == 0)
		return true;
	return devices_find(devices, one, &a) == 0 && devices_find(devices, other, &b) == 0 &&
	       a == b;
}

static void remove_memory_limit(
	struct settings *settings, const struct devices *devices, const char *name)
{
	unsigned n = 0;

	for (unsigned i = 0; i < settings->n_memory; i++)
		if (!is_same_device(devices, settings->memory[i].device, name))
			settings->memory[n++] = settings->memory[i];
	settings->n_memory = n;
}

int settings_set_memory(
	struct settings *settings, const struct devices *devices, const char *name, uint64_t bytes)
{
	const struct frame_device *device;
	struct memory_limit *limit;

	remove_memory_limit(settings, devices, name);
	if (bytes == MEMORY_ALL)
		return 0;
	if (settings->n_memory == DEVICES_MAX)
		return -ENOSPC;
	limit = &settings->memory[settings->n_memory++];
	limit->bytes = bytes;
	if (devices_find(devices, name, &device) == 0)
		device_uuid_text(device, limit->device);
	else
		snprintf(limit->device, sizeof(limit->device), "%s", name);
	return 0;
}

uint64_t settings_get_memory(
	const struct settings *settings, const struct devices *devices, const char *name)
{
	/* If several names mean the same GPU, the last one was set last. */
	for (unsigned i = settings->n_memory; i-- > 0;)
		if (is_same_device(devices, settings->memory[i].device, name))
			return settings->memory[i].bytes;
	return MEMORY_ALL;
}

/* ---- effective limits */

void limits_init(struct frame_limits *limits)
{
	*limits = (struct frame_limits){.active_threads = ACTIVE_THREADS_ALL};
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		limits->memory[i] = MEMORY_ALL;
}

void settings_lower(
	const struct settings *settings, const struct devices *devices, struct frame_limits *limits)
{
	uint64_t memory[DEVICES_MAX];
	const struct frame_device *device;

	if (settings->active_threads > 0)
		limits->active_threads = MIN(limits->active_threads, settings->active_threads);
	limits->priority = MAX(limits->priority, settings->priority);
	memset(memory, 0xff, sizeof(memory));
	for (unsigned i = 0; i < settings->n_memory; i++)
		if (devices_find(devices, settings->memory[i].device, &device) == 0)
			memory[device->ordinal] = settings->memory[i].bytes;
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		limits->memory[i] = MIN(limits->memory[i], memory[i]);
}

/* ---- the environment */

static const char *read_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Reads one "DEVICE=SIZE". */
static int add_memory_entry(struct settings *settings, char *entry)
{
	static const struct devices none;
	char *size = strchr(entry, '=');
	uint64_t bytes;

	if (!size)
		return -EINVAL;
	*size++ = '\0';
	if (!device_name_ok(entry) || parse_size(size, &bytes) < 0)
		return -EINVAL;
	return settings_set_memory(settings, &none, entry, bytes);
}

static int add_memory_entries(struct settings *settings, char *text)
{
	char *rest = NULL;

	for (char *entry = strtok_r(text, ",", &rest); entry; entry = strtok_r(NULL, ",", &rest)) {
		int r = add_memory_entry(settings, entry);

		if (r < 0)
			return r;
	}
	return 0;
}

static int load_memory_limits(struct settings *settings, struct error_message *error)
{
	static const char name[] = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
	const char *value = read_variable(name);
	char copy[DEVICES_MAX * (DEVICE_NAME_MAX + SIZE_TEXT_MAX)];

	if (!value)
		return 0;
	if ((size_t)snprintf(copy, sizeof(copy), "%s", value) < sizeof(copy) &&
		add_memory_entries(settings, copy) == 0)
		return 0;
	return error_message_set(error, -EINVAL,
		"%s is \"%.64s\": it takes DEVICE=SIZE pairs separated by commas, such as "
		"0=1G,1=512M; DEVICE is " DEVICE_NAME_ACCEPTED ", SIZE is " SIZE_ACCEPTED,
		name, value);
}

int settings_load(struct settings *settings, struct error_message *error)
{
	const char *percentage = read_variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	const char *priority = read_variable("CUDA_MPS_CLIENT_PRIORITY");

	*settings = (struct settings){.active_threads = ACTIVE_THREADS_ALL};
	if (percentage && parse_percentage(percentage, &settings->active_threads) < 0)
		return error_message_set(error, -EINVAL,
			"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is \"%.64s\": it takes "
			"" PERCENTAGE_ACCEPTED,
			percentage);
	if (priority && parse_priority(priority, &settings->priority) < 0)
		return error_message_set(error, -EINVAL,
			"CUDA_MPS_CLIENT_PRIORITY is \"%.64s\": it " PRIORITY_ACCEPTED, priority);
	return load_memory_limits(settings, error);
}
