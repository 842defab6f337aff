/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The environment of a server. The loop thread makes one for each new server.
 *
 * Invariant: a server inherits only variables that are named here or in
 * MPS_SERVER_ENV, and never LD_PRELOAD.
 */

#include <stdio.h>
#include <string.h>

#include "config.h"

/* Servers inherit these from the daemon, or get them from the file, if they are set. */
static const char *const passed_on[] = {
	"CUDA_CACHE_DISABLE",
	"CUDA_CACHE_MAXSIZE",
	"CUDA_CACHE_PATH",
	"CUDA_DEVICE_ORDER",
	"CUDA_VISIBLE_DEVICES",
	"LD_LIBRARY_PATH",
	"MPS_FOREGROUND_SLOWDOWN",
	"MPS_BACKGROUND_FLOOR",
	"MPS_CLIENT_HOST_MIB",
	"MPS_CUDA_LIBRARY",
	"MPS_DISABLE",
	"MPS_GRACE_MS",
	"MPS_OVERSUBSCRIBE_HOST",
	"MPS_OVERSUBSCRIBE_STAY",
	"PATH",
};

/* A growing list of strings; NULL terminates it at all times. */
struct strings {
	char **items;
	size_t n;
};

static int strings_add(struct strings *strings, const char *name, const char *value)
{
	_cleanup_free_ char *item = NULL;
	char **items;

	if (asprintf(&item, "%s=%s", name, value) < 0) {
		item = NULL;
		return -ENOMEM;
	}
	items = reallocarray(strings->items, strings->n + 2, sizeof(*items));
	if (!items)
		return -ENOMEM;
	strings->items = items;
	items[strings->n++] = TAKE_PTR(item);
	items[strings->n] = NULL;
	return 0;
}

static void strings_fini(struct strings *strings)
{
	config_environment_free(strings->items);
}

/* Adds the variables that the operator names, separated by commas or blanks. */
static int add_named_variables(struct strings *strings, const char *names)
{
	while (*names) {
		size_t length = strcspn(names, ", \t");
		char name[128] = "";

		if (length < sizeof(name))
			memcpy(name, names, length);
		if (*name && strcmp(name, "LD_PRELOAD") != 0 && getenv(name) &&
			strings_add(strings, name, getenv(name)) < 0)
			return -ENOMEM;
		names += length;
		names += *names != '\0';
	}
	return 0;
}

/* The daemon's own variable, or what the configuration file says instead; NULL: neither. */
static const char *server_variable(const struct config *config, const char *name)
{
	for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
		const char *variable = config_key_variable(key);

		if (variable && strcmp(variable, name) == 0 && config_key_text(key, config->file))
			return config_key_text(key, config->file);
	}
	return getenv(name);
}

const char *config_subuid_path(void)
{
	const char *path = getenv("MPS_SUBUID_FILE");

	return path && *path ? path : "/etc/subuid";
}

char **config_environment(const struct config *config, const char *devices)
{
	_cleanup_(strings_fini) struct strings strings = {0};
	const char *names = config_key_text(CONFIG_SERVER_ENV, config->file);

	if (strings_add(&strings, "CUDA_MPS_PIPE_DIRECTORY", config->pipe_directory) < 0 ||
		strings_add(&strings, "CUDA_DEVICE_MAX_CONNECTIONS", "32") < 0 ||
		strings_add(&strings, "CUDA_MODULE_LOADING", "LAZY") < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++) {
		bool is_devices = strcmp(passed_on[i], "CUDA_VISIBLE_DEVICES") == 0;
		const char *value =
			is_devices && devices ? devices : server_variable(config, passed_on[i]);

		if (value && strings_add(&strings, passed_on[i], value) < 0)
			return NULL;
	}
	if (names && add_named_variables(&strings, names) < 0)
		return NULL;
	return TAKE_PTR(strings.items);
}

void config_environment_free(char **environment)
{
	for (size_t i = 0; environment && environment[i]; i++)
		free(environment[i]);
	free(environment);
}
