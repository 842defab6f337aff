/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Settings. Loop thread; settings_load() runs before the loop.
 *
 * Invariant: each GPU has at most one memory limit, as far as GPUs are known.
 */

#include "settings.h"

#include <string.h>
#include <strings.h>

#include "limit_text.h"
#include "daemon/text/tokenize.h"

void settings_init(struct settings *settings)
{
	*settings = (struct settings)SETTINGS_NONE;
}

bool setting_is_set(const struct settings *settings, enum setting setting)
{
	switch (setting) {
	case SETTING_ACTIVE_THREADS:
		return settings->active_threads > 0;
	case SETTING_PRIORITY:
		return settings->priority >= 0;
	case SETTING_OVERSUBSCRIBE:
		return settings->oversubscribe != OVERSUBSCRIBE_UNSET;
	case SETTING_SOFT_LIMIT:
		return settings->soft_limit != MEMORY_ALL;
	default:
		return settings->n_memory > 0;
	}
}

bool settings_are_any(const struct settings *settings)
{
	bool is_any = false;

	for (enum setting setting = 0; setting < SETTINGS; setting++)
		is_any |= setting_is_set(settings, setting);
	return is_any;
}

void settings_unset(struct settings *settings, enum setting setting)
{
	if (setting == SETTING_ACTIVE_THREADS)
		settings->active_threads = 0;
	else if (setting == SETTING_PRIORITY)
		settings->priority = -1;
	else if (setting == SETTING_OVERSUBSCRIBE)
		settings->oversubscribe = OVERSUBSCRIBE_UNSET;
	else if (setting == SETTING_SOFT_LIMIT)
		settings->soft_limit = MEMORY_ALL;
	else
		settings->n_memory = 0;
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

int parse_soft_limit(const char *text, uint64_t *ret_bytes)
{
	if (strcmp(text, "0") != 0)
		return parse_size(text, ret_bytes);
	*ret_bytes = 0;
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

/* If several names mean the same GPU, the last one was set last. */
const struct memory_limit *settings_find_memory(
	const struct settings *settings, const struct devices *devices, const char *name)
{
	for (unsigned i = settings->n_memory; i-- > 0;)
		if (is_same_device(devices, settings->memory[i].device, name))
			return &settings->memory[i];
	return NULL;
}

void settings_unset_memory(
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

	settings_unset_memory(settings, devices, name);
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
	const struct memory_limit *limit = settings_find_memory(settings, devices, name);

	return limit ? limit->bytes : MEMORY_ALL;
}

/* ---- effective limits */

void limits_init(struct frame_limits *limits)
{
	*limits = (struct frame_limits){.active_threads = ACTIVE_THREADS_ALL};
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		limits->memory[i] = limits->soft[i] = MEMORY_ALL;
}

void settings_lower(
	const struct settings *settings, const struct devices *devices, struct frame_limits *limits)
{
	uint64_t memory[DEVICES_MAX];
	const struct frame_device *device;

	if (settings->active_threads > 0)
		limits->active_threads = MIN(limits->active_threads, settings->active_threads);
	limits->priority = MAX(limits->priority, settings->priority);
	if (settings->oversubscribe != OVERSUBSCRIBE_UNSET)
		limits->oversubscribe = settings->oversubscribe;
	memset(memory, 0xff, sizeof(memory));
	for (unsigned i = 0; i < settings->n_memory; i++)
		if (devices_find(devices, settings->memory[i].device, &device) == 0)
			memory[device->ordinal] = settings->memory[i].bytes;
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		limits->memory[i] = MIN(limits->memory[i], memory[i]);
		limits->soft[i] = MIN(limits->soft[i], settings->soft_limit);
	}
}

void limits_forget_soft(struct frame_limits *limits)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		limits->soft[i] = MEMORY_ALL;
}

/* ---- values of the environment and of the file */

static const struct {
	const char *name, *variable;
} texts[SETTINGS] = {
	[SETTING_ACTIVE_THREADS] = {"active_thread_percentage",
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"},
	[SETTING_MEMORY] = {"device_pinned_mem_limit", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"},
	[SETTING_PRIORITY] = {"client_priority", "CUDA_MPS_CLIENT_PRIORITY"},
	[SETTING_OVERSUBSCRIBE] = {"oversubscribe", "MPS_OVERSUBSCRIBE"},
	[SETTING_SOFT_LIMIT] = {"soft_limit", "MPS_SOFT_LIMIT"},
};

const char *setting_name(enum setting setting)
{
	return texts[setting].name;
}

const char *setting_variable(enum setting setting)
{
	return texts[setting].variable;
}

static const char *environment_text(enum setting setting)
{
	const char *value = getenv(texts[setting].variable);

	return value && *value ? value : NULL;
}

bool setting_is_in_environment(enum setting setting)
{
	return environment_text(setting);
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
		/* In a file a blank follows the comma, as it does in a sentence. */
		int r = add_memory_entry(settings, entry + strspn(entry, " \t"));

		if (r < 0)
			return r;
	}
	return 0;
}

static int read_memory(struct settings *settings, const char *text, struct error_message *error)
{
	char copy[DEVICES_MAX * (DEVICE_NAME_MAX + SIZE_TEXT_MAX)];

	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) < sizeof(copy) &&
		add_memory_entries(settings, copy) == 0)
		return 0;
	return error_message_set(error, -EINVAL,
		"it takes DEVICE=SIZE pairs separated by commas, such as 0=1G,1=512M; DEVICE "
		"is " DEVICE_NAME_ACCEPTED ", SIZE is " SIZE_ACCEPTED);
}

static int read_oversubscribe(
	struct settings *settings, const char *text, struct error_message *error)
{
	bool is_on;

	if (parse_switch(text, &is_on) < 0)
		return error_message_set(error, -EINVAL, "it takes " SWITCH_ACCEPTED);
	settings->oversubscribe = is_on ? OVERSUBSCRIBE_YES : OVERSUBSCRIBE_NO;
	return 0;
}

int settings_read(struct settings *settings, enum setting setting, const char *text,
	struct error_message *error)
{
	switch (setting) {
	case SETTING_ACTIVE_THREADS:
		if (parse_percentage(text, &settings->active_threads) == 0)
			return 0;
		return error_message_set(error, -EINVAL, "it takes " PERCENTAGE_ACCEPTED);
	case SETTING_PRIORITY:
		if (parse_priority(text, &settings->priority) == 0)
			return 0;
		return error_message_set(error, -EINVAL, "it " PRIORITY_ACCEPTED);
	case SETTING_OVERSUBSCRIBE:
		return read_oversubscribe(settings, text, error);
	case SETTING_SOFT_LIMIT:
		if (parse_soft_limit(text, &settings->soft_limit) == 0)
			return 0;
		return error_message_set(error, -EINVAL, "it takes " SOFT_LIMIT_ACCEPTED);
	default:
		return read_memory(settings, text, error);
	}
}

int settings_load(struct settings *settings, struct error_message *error)
{
	*settings = (struct settings){.active_threads = ACTIVE_THREADS_ALL,
		.oversubscribe = OVERSUBSCRIBE_NO,
		.soft_limit = MEMORY_ALL};
	for (enum setting setting = 0; setting < SETTINGS; setting++) {
		const char *value = environment_text(setting);
		struct error_message why;
		int r = value ? settings_read(settings, setting, value, &why) : 0;

		if (r < 0)
			return error_message_set(error, r, "%s is \"%.64s\": %s",
				texts[setting].variable, value, why.text);
	}
	return 0;
}

/* ---- texts for the operator */

static void format_memory(const struct settings *settings, char text[SETTING_TEXT_MAX])
{
	size_t used = 0;

	for (unsigned i = 0; i < settings->n_memory && used < SETTING_TEXT_MAX; i++) {
		const struct memory_limit *limit = &settings->memory[i];
		char size[SIZE_TEXT_MAX];

		format_size(limit->bytes, size, sizeof(size));
		used += (size_t)snprintf(text + used, SETTING_TEXT_MAX - used, "%s%s=%s",
			i > 0 ? "," : "", limit->device, size);
	}
}

void setting_format(
	const struct settings *settings, enum setting setting, char text[SETTING_TEXT_MAX])
{
	snprintf(text, SETTING_TEXT_MAX, "none");
	if (setting == SETTING_MEMORY)
		format_memory(settings, text);
	else if (setting == SETTING_ACTIVE_THREADS && settings->active_threads > 0)
		format_percentage(settings->active_threads, text, SETTING_TEXT_MAX);
	else if (setting == SETTING_PRIORITY && settings->priority >= 0)
		snprintf(text, SETTING_TEXT_MAX, "%d", settings->priority);
	else if (setting == SETTING_OVERSUBSCRIBE && setting_is_set(settings, setting))
		snprintf(text, SETTING_TEXT_MAX, "%s",
			settings->oversubscribe == OVERSUBSCRIBE_YES ? "yes" : "no");
	else if (setting == SETTING_SOFT_LIMIT && setting_is_set(settings, setting))
		format_size(settings->soft_limit, text, SETTING_TEXT_MAX);
}

static bool has_memory_of(const struct settings *settings, const struct settings *other,
	const struct devices *devices)
{
	for (unsigned i = 0; i < other->n_memory; i++)
		if (settings_get_memory(settings, devices, other->memory[i].device) !=
			other->memory[i].bytes)
			return false;
	return true;
}

bool setting_is_equal(const struct settings *one, const struct settings *other,
	enum setting setting, const struct devices *devices)
{
	switch (setting) {
	case SETTING_ACTIVE_THREADS:
		return one->active_threads == other->active_threads;
	case SETTING_PRIORITY:
		return one->priority == other->priority;
	case SETTING_OVERSUBSCRIBE:
		return one->oversubscribe == other->oversubscribe;
	case SETTING_SOFT_LIMIT:
		return one->soft_limit == other->soft_limit;
	default:
		return has_memory_of(one, other, devices) && has_memory_of(other, one, devices);
	}
}
