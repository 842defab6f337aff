/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's view of the environment. Runs in main() before the loop, except
 * config_environment(), which the loop thread calls for each new server.
 *
 * Invariant: a server inherits only variables that are named here or in
 * MPS_SERVER_ENV, and never LD_PRELOAD.
 */

#include <stdio.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>

#include "allowances.h"
#include "config.h"
#include "tokenize.h"

#define GRACE_MS_MAX 3600000

/* Servers inherit these from the daemon, if they are set. */
static const char *const passed_on[] = {
	"CUDA_CACHE_DISABLE",
	"CUDA_CACHE_MAXSIZE",
	"CUDA_CACHE_PATH",
	"CUDA_DEVICE_ORDER",
	"CUDA_VISIBLE_DEVICES",
	"LD_LIBRARY_PATH",
	"MPS_CLIENT_HOST_MIB",
	"MPS_CUDA_LIBRARY",
	"MPS_GRACE_MS",
	"PATH",
};

#define SERVER_USER_DEFAULT "mps"

/* An absolute path without a slash at its end, which would make O_NOFOLLOW follow a link. */
static int load_directory(char *path, size_t size, const char *variable, const char *fallback,
	struct error_message *error)
{
	const char *value = getenv(variable);
	char here[PATH_MAX] = "";
	int n;

	if (!value || !*value)
		value = fallback;
	if (*value != '/' && !getcwd(here, sizeof(here)))
		return error_message_set(error, -errno,
			"%s is a relative path and the current directory cannot be read (%s): set "
			"it "
			"to an absolute path",
			variable, strerror(errno));
	n = snprintf(path, size, "%s%s%s", here, *value == '/' ? "" : "/", value);
	if (n < 0 || (size_t)n >= size)
		return error_message_set(error, -ENAMETOOLONG,
			"%s is longer than the system's limit of %zu bytes: set it to a shorter "
			"path",
			variable, size - 1);
	while (n > 1 && path[n - 1] == '/')
		path[--n] = '\0';
	return 0;
}

/* A number from `min' to `max'; `unit' names its unit. */
static int load_number(const char *variable, const char *unit, unsigned fallback, unsigned min,
	unsigned max, unsigned *ret_number, struct error_message *error)
{
	const char *value = getenv(variable);
	uint64_t number;

	*ret_number = fallback;
	if (!value || !*value)
		return 0;
	if (parse_number(value, max, &number) < 0 || number < min)
		return error_message_set(error, -EINVAL,
			"%s is \"%s\": it takes %s, a number from %u to %u", variable, value, unit,
			min, max);
	*ret_number = (unsigned)number;
	return 0;
}

static int load_numbers(struct config *config, struct error_message *error)
{
	unsigned by_cgroup = 0;
	int r = load_number("MPS_GRACE_MS", "milliseconds", GRACE_MS_DEFAULT, 0, GRACE_MS_MAX,
		&config->grace_ms, error);

	if (r == 0)
		r = load_number("MPS_SERVERS_MAX", "servers", SERVERS_MAX_DEFAULT, 1,
			SERVERS_MAX_MAX, &config->servers_max, error);
	if (r == 0)
		r = load_number("MPS_LOG_MAX_MIB", "MiB, 0 for no limit", LOG_MAX_MIB_DEFAULT, 0,
			LOG_MAX_MIB_MAX, &config->log_max_mib, error);
	if (r == 0)
		r = load_number("MPS_IDLE_S", "seconds, 0 for no limit", IDLE_S_DEFAULT, 0,
			IDLE_S_MAX, &config->idle_s, error);
	if (r == 0)
		r = load_number("MPS_GROUP_BY_CGROUP", "1 or 0", 0, 0, 1, &by_cgroup, error);
	config->groups_by_cgroup = by_cgroup;
	return r;
}

static int load_kernel_log(struct config *config, struct error_message *error)
{
	const char *value = getenv("MPS_KERNEL_LOG");

	if (!value || !*value)
		value = KERNEL_LOG_DEFAULT;
	if (value[0] != '/' || strlen(value) >= sizeof(config->kernel_log))
		return error_message_set(error, -EINVAL,
			"MPS_KERNEL_LOG=%.200s is not the absolute path of a file", value);
	memcpy(config->kernel_log, value, strlen(value) + 1);
	return 0;
}

int config_load(struct config *config, struct error_message *error)
{
	size_t length;
	int r;

	memset(config, 0, sizeof(*config));
	config->uid = geteuid();
	r = load_directory(config->pipe_directory, sizeof(config->pipe_directory),
		"CUDA_MPS_PIPE_DIRECTORY", PIPE_DIRECTORY_DEFAULT, error);
	if (r < 0)
		return r;
	r = load_directory(config->log_directory, sizeof(config->log_directory),
		"CUDA_MPS_LOG_DIRECTORY", LOG_DIRECTORY_DEFAULT, error);
	if (r < 0)
		return r;
	r = load_numbers(config, error);
	if (r < 0)
		return r;
	r = load_kernel_log(config, error);
	if (r < 0)
		return r;
	length = strlen(config->pipe_directory) + strlen("/control");
	if (length > SOCKET_PATH_MAX)
		return error_message_set(error, -ENAMETOOLONG,
			"The path of the control socket, %.200s/control, has %zu bytes, more than "
			"the "
			"system's limit of %d: set CUDA_MPS_PIPE_DIRECTORY to a directory of at "
			"most "
			"%zu bytes",
			config->pipe_directory, length, SOCKET_PATH_MAX,
			SOCKET_PATH_MAX - strlen("/control"));
	memcpy(config->socket_path, config->pipe_directory, length - strlen("/control"));
	memcpy(config->socket_path + length - strlen("/control"), "/control", sizeof("/control"));
	return 0;
}

int config_load_server_user(struct config *config, struct error_message *error)
{
	const char *name = getenv("MPS_SERVER_USER");
	const struct passwd *entry;

	if (!name || !*name)
		name = SERVER_USER_DEFAULT;
	entry = getpwnam(name);
	if (!entry)
		return error_message_set(error, -ENOENT,
			"-M needs a user for the server, but the system has no user \"%.64s\": "
			"create it (useradd --system %.64s), or name another user in "
			"MPS_SERVER_USER",
			name, name);
	if (entry->pw_uid == 0)
		return error_message_set(error, -EPERM,
			"MPS_SERVER_USER is \"%.64s\", which is root: the server of all users "
			"needs an unprivileged user",
			name);
	config->server_uid = entry->pw_uid;
	return 0;
}

struct sockaddr_un config_address(const struct config *config)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	_Static_assert(sizeof(address.sun_path) == sizeof(config->socket_path), "SOCKET_PATH_MAX");
	memcpy(address.sun_path, config->socket_path, sizeof(address.sun_path));
	return address;
}

/* A growing list of strings; NULL terminates it at all times. */
struct strings {
	char **items;
	size_t n;
};

static int strings_add(
	struct strings *strings, const char *name, size_t name_length, const char *value)
{
	_cleanup_free_ char *item = NULL;
	char **items;

	if (asprintf(&item, "%.*s=%s", (int)name_length, name, value) < 0) {
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

static bool is_same_name(const char *name, size_t length, const char *wanted)
{
	return strlen(wanted) == length && memcmp(name, wanted, length) == 0;
}

/* Adds the variables that the operator names, separated by commas. */
static int add_named_variables(struct strings *strings, const char *names)
{
	while (*names) {
		size_t length = strcspn(names, ",");
		char name[128];

		if (length > 0 && length < sizeof(name) &&
			!is_same_name(names, length, "LD_PRELOAD")) {
			memcpy(name, names, length);
			name[length] = '\0';
			if (getenv(name) && strings_add(strings, name, length, getenv(name)) < 0)
				return -ENOMEM;
		}
		names += length;
		names += *names == ',';
	}
	return 0;
}

char **config_environment(const struct config *config)
{
	_cleanup_(strings_fini) struct strings strings = {0};
	const char *names = getenv("MPS_SERVER_ENV");

	if (strings_add(&strings, "CUDA_MPS_PIPE_DIRECTORY", strlen("CUDA_MPS_PIPE_DIRECTORY"),
		    config->pipe_directory) < 0 ||
		strings_add(&strings, "CUDA_DEVICE_MAX_CONNECTIONS",
			strlen("CUDA_DEVICE_MAX_CONNECTIONS"), "32") < 0 ||
		strings_add(
			&strings, "CUDA_MODULE_LOADING", strlen("CUDA_MODULE_LOADING"), "LAZY") < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++) {
		const char *value = getenv(passed_on[i]);

		if (value && strings_add(&strings, passed_on[i], strlen(passed_on[i]), value) < 0)
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
