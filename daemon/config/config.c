/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's configuration, key by key. Runs in main() before the loop, and
 * in the loop when the configuration file is read again.
 *
 * Invariant: a value of the environment and one of the file pass the same
 * function, so that both mean the same and are refused alike.
 */

#include "config.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "allowances.h"
#include "device_name.h"
#include "daemon/text/tokenize.h"

#define GRACE_MS_MAX 3600000
#define HOST_MIB_MAX (1u << 24)

#define SERVER_USER_DEFAULT "mps"

#define TEXT_OF(number) #number
#define DEFAULT_OF(number) TEXT_OF(number)

struct key {
	const char *name, *variable;
	const char *fallback; /* NULL: the key has nothing to set by default */
	/*
	 * 0 or -errno and what the key takes, in `error'. The environment's text of a key that
	 * `is_passed_on' is the server's to judge.
	 */
	int (*set)(const struct key *key, struct config *config, const char *value,
		struct error_message *error);
	size_t offset; /* of the value in struct config */
	const char *unit;
	unsigned min, max;
	enum config_effect effect;
	bool is_passed_on;
};

/* ---- values */

static int set_number(const struct key *key, struct config *config, const char *value,
	struct error_message *error)
{
	uint64_t number;

	if (parse_number(value, key->max, &number) < 0 || number < key->min)
		return error_message_set(error, -EINVAL, "it takes %s, a number from %u to %u",
			key->unit, key->min, key->max);
	if (!key->is_passed_on)
		*(unsigned *)((char *)config + key->offset) = (unsigned)number;
	return 0;
}

static int set_switch(const struct key *key, struct config *config, const char *value,
	struct error_message *error)
{
	bool is_on;

	if (parse_switch(value, &is_on) < 0)
		return error_message_set(error, -EINVAL, "it takes " SWITCH_ACCEPTED);
	*(bool *)((char *)config + key->offset) = is_on;
	return 0;
}

static int set_log_level(_unused_ const struct key *key, struct config *config, const char *value,
	struct error_message *error)
{
	bool is_debug = strcmp(value, "debug") == 0;

	if (!is_debug && strcmp(value, "info") != 0)
		return error_message_set(error, -EINVAL, "it takes info or debug");
	config->is_verbose = is_debug;
	return 0;
}

/* An absolute path without a slash at its end, which would make O_NOFOLLOW follow a link. */
static int set_directory(const struct key *key, struct config *config, const char *value,
	struct error_message *error)
{
	char *path = (char *)config + key->offset;
	char here[PATH_MAX] = "";
	int n;

	if (*value != '/' && !getcwd(here, sizeof(here)))
		return error_message_set(error, -errno,
			"it is a relative path and the current directory cannot be read (%s): set "
			"it to an absolute path",
			strerror(errno));
	n = snprintf(path, PATH_MAX, "%s%s%s", here, *value == '/' ? "" : "/", value);
	if (n < 0 || n >= PATH_MAX)
		return error_message_set(error, -ENAMETOOLONG,
			"it takes a path of at most %d bytes, the system's limit", PATH_MAX - 1);
	while (n > 1 && path[n - 1] == '/')
		path[--n] = '\0';
	return 0;
}

static int set_pipe_directory(const struct key *key, struct config *config, const char *value,
	struct error_message *error)
{
	int r = set_directory(key, config, value, error);
	size_t length = strlen(config->pipe_directory), max = SOCKET_PATH_MAX - strlen("/control");

	if (r < 0)
		return r;
	if (length > max)
		return error_message_set(error, -ENAMETOOLONG,
			"the path of the control socket in it has %zu bytes, more than the "
			"system's limit of %d: it takes a directory of at most %zu bytes",
			length + strlen("/control"), SOCKET_PATH_MAX, max);
	memcpy(config->socket_path, config->pipe_directory, length);
	memcpy(config->socket_path + length, "/control", sizeof("/control"));
	return 0;
}

static int set_file(const struct key *key, struct config *config, const char *value,
	struct error_message *error)
{
	if (value[0] != '/' || strlen(value) >= PATH_MAX)
		return error_message_set(error, -EINVAL, "it takes the absolute path of a file");
	if (!key->is_passed_on)
		memcpy((char *)config + key->offset, value, strlen(value) + 1);
	return 0;
}

static int set_kernel_log(const struct key *key, struct config *config, const char *value,
	struct error_message *error)
{
	if (strcmp(value, KERNEL_LOG_NONE) != 0)
		return set_file(key, config, value, error);
	memcpy(config->kernel_log, KERNEL_LOG_NONE, sizeof(KERNEL_LOG_NONE));
	return 0;
}

static int check_user(_unused_ const struct key *key, _unused_ struct config *config,
	const char *value, struct error_message *error)
{
	if (strlen(value) < 64 && !strpbrk(value, " \t:/"))
		return 0;
	return error_message_set(error, -EINVAL, "it takes the name of a user");
}

static int check_variables(_unused_ const struct key *key, _unused_ struct config *config,
	const char *value, struct error_message *error)
{
	static const char accepted[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789_, \t";

	if (!value[strspn(value, accepted)])
		return 0;
	return error_message_set(
		error, -EINVAL, "it takes names of environment variables, separated by commas");
}

static int check_devices(_unused_ const struct key *key, _unused_ struct config *config,
	const char *value, struct error_message *error)
{
	while (true) {
		size_t length = strcspn(value, ",");
		char name[DEVICE_NAME_MAX] = "";

		if (length < sizeof(name))
			memcpy(name, value, length);
		if (!device_name_ok(name) || strpbrk(name, ".:"))
			return error_message_set(error, -EINVAL,
				"it takes ordinals or UUIDs of GPUs, separated by commas without "
				"blanks, such as 0,1");
		if (!value[length])
			return 0;
		value += length + 1;
	}
}

static int check_order(_unused_ const struct key *key, _unused_ struct config *config,
	const char *value, struct error_message *error)
{
	if (strcmp(value, "FASTEST_FIRST") == 0 || strcmp(value, "PCI_BUS_ID") == 0)
		return 0;
	return error_message_set(error, -EINVAL, "it takes FASTEST_FIRST or PCI_BUS_ID");
}

static int set_metrics_listen(_unused_ const struct key *key, struct config *config,
	const char *value, struct error_message *error)
{
	bool is_off = strcmp(value, "off") == 0;
	struct metrics_address address;

	if (!is_off &&
		(strlen(value) >= METRICS_LISTEN_MAX || !metrics_address_parse(value, &address)))
		return error_message_set(error, -EINVAL,
			"it takes off, a PORT, or ADDRESS:PORT, such as 9400, 127.0.0.1:9400 or "
			"[::1]:9400");
	snprintf(config->metrics_listen, sizeof(config->metrics_listen), "%s", is_off ? "" : value);
	return 0;
}

/* ---- keys */

#define AT(member) .offset = offsetof(struct config, member)

static const struct key keys[CONFIG_KEYS] = {
	[CONFIG_PIPE_DIRECTORY] = {"pipe_directory", "CUDA_MPS_PIPE_DIRECTORY",
		PIPE_DIRECTORY_DEFAULT, .effect = CONFIG_AFTER_RESTART, .set = set_pipe_directory,
		AT(pipe_directory)},
	[CONFIG_LOG_DIRECTORY] = {"log_directory", "CUDA_MPS_LOG_DIRECTORY", LOG_DIRECTORY_DEFAULT,
		.effect = CONFIG_AFTER_RESTART, .set = set_directory, AT(log_directory)},
	[CONFIG_LOG_MAX_MIB] = {"log_max_mib", "MPS_LOG_MAX_MIB", DEFAULT_OF(LOG_MAX_MIB_DEFAULT),
		.effect = CONFIG_AT_ONCE, .set = set_number, AT(log_max_mib),
		.unit = "MiB, 0 for no limit", .max = LOG_MAX_MIB_MAX},
	[CONFIG_LOG_LEVEL] = {"log_level", NULL, "info", .effect = CONFIG_AT_ONCE,
		.set = set_log_level},
	[CONFIG_KERNEL_LOG] = {"kernel_log", "MPS_KERNEL_LOG", KERNEL_LOG_DEFAULT,
		.effect = CONFIG_AFTER_RESTART, .set = set_kernel_log, AT(kernel_log)},
	[CONFIG_GRACE_MS] = {"grace_ms", "MPS_GRACE_MS", DEFAULT_OF(GRACE_MS_DEFAULT),
		.effect = CONFIG_FOR_NEW_SERVERS, .set = set_number, AT(grace_ms),
		.unit = "milliseconds", .max = GRACE_MS_MAX},
	[CONFIG_IDLE_S] = {"idle_s", "MPS_IDLE_S", DEFAULT_OF(IDLE_S_DEFAULT),
		.effect = CONFIG_AT_ONCE, .set = set_number, AT(idle_s),
		.unit = "seconds, 0 for no limit", .max = IDLE_S_MAX},
	[CONFIG_SERVERS_MAX] = {"servers_max", "MPS_SERVERS_MAX", DEFAULT_OF(SERVERS_MAX_DEFAULT),
		.effect = CONFIG_AT_ONCE, .set = set_number, AT(servers_max), .unit = "servers",
		.min = 1, .max = SERVERS_LIMIT},
	[CONFIG_MOVE_ON_UPGRADE] = {"move_on_upgrade", "MPS_MOVE_ON_UPGRADE", "no",
		.effect = CONFIG_AT_ONCE, .set = set_switch, AT(moves_on_upgrade)},
	[CONFIG_SPARE_SERVER] = {"spare_server", "MPS_SPARE_SERVER", "no", .effect = CONFIG_AT_ONCE,
		.set = set_switch, AT(keeps_spares)},
	[CONFIG_GROUP_BY_CGROUP] = {"group_by_cgroup", "MPS_GROUP_BY_CGROUP", "no",
		.effect = CONFIG_AT_ONCE, .set = set_switch, AT(groups_by_cgroup)},
	[CONFIG_CGROUP_ROOT] = {"cgroup_root", "MPS_CGROUP_ROOT", CGROUP_ROOT_DEFAULT,
		.effect = CONFIG_AFTER_RESTART, .set = set_file, AT(cgroup_root)},
	[CONFIG_CLIENT_HOST_MIB] = {"client_host_mib", "MPS_CLIENT_HOST_MIB", NULL,
		.effect = CONFIG_FOR_NEW_SERVERS, .set = set_number, .is_passed_on = true,
		.unit = "MiB", .min = 1, .max = HOST_MIB_MAX},
	[CONFIG_FOREGROUND_SLOWDOWN] = {"foreground_slowdown", "MPS_FOREGROUND_SLOWDOWN", NULL,
		.effect = CONFIG_FOR_NEW_SERVERS, .set = set_number, .is_passed_on = true,
		.unit = "percent", .min = FOREGROUND_SLOWDOWN_MIN, .max = FOREGROUND_SLOWDOWN_MAX},
	[CONFIG_BACKGROUND_FLOOR] = {"background_floor", "MPS_BACKGROUND_FLOOR", NULL,
		.effect = CONFIG_FOR_NEW_SERVERS, .set = set_number, .is_passed_on = true,
		.unit = "percent", .min = BACKGROUND_FLOOR_MIN, .max = BACKGROUND_FLOOR_MAX},
	[CONFIG_OVERSUBSCRIBE_HOST] = {"oversubscribe_host", "MPS_OVERSUBSCRIBE_HOST", NULL,
		.effect = CONFIG_FOR_NEW_SERVERS, .set = set_number, .is_passed_on = true,
		.unit = "MiB", .max = HOST_MIB_MAX},
	[CONFIG_OVERSUBSCRIBE_STAY] = {"oversubscribe_stay", "MPS_OVERSUBSCRIBE_STAY", NULL,
		.effect = CONFIG_FOR_NEW_SERVERS, .set = set_number, .is_passed_on = true,
		.unit = "seconds", .max = OVERSUBSCRIBE_STAY_MAX},
	[CONFIG_CUDA_LIBRARY] = {"cuda_library", "MPS_CUDA_LIBRARY", NULL,
		.effect = CONFIG_AFTER_RESTART, .set = set_file, .is_passed_on = true},
	[CONFIG_VISIBLE_DEVICES] = {"visible_devices", "CUDA_VISIBLE_DEVICES", NULL,
		.effect = CONFIG_AFTER_RESTART, .set = check_devices, .is_passed_on = true},
	[CONFIG_DEVICE_ORDER] = {"device_order", "CUDA_DEVICE_ORDER", NULL,
		.effect = CONFIG_AFTER_RESTART, .set = check_order, .is_passed_on = true},
	[CONFIG_MULTIUSER_SERVER] = {"multiuser_server", NULL, "no", .effect = CONFIG_AFTER_RESTART,
		.set = set_switch, AT(is_multiuser)},
	[CONFIG_TRUST_CONTAINER_ROOT] = {"trust_container_root", NULL, "no",
		.effect = CONFIG_AT_ONCE, .set = set_switch, AT(trusts_container_root)},
	[CONFIG_SERVER_USER] = {"server_user", "MPS_SERVER_USER", NULL,
		.effect = CONFIG_AFTER_RESTART, .set = check_user, .is_passed_on = true},
	[CONFIG_SERVER_ENV] = {"server_env", "MPS_SERVER_ENV", NULL,
		.effect = CONFIG_FOR_NEW_SERVERS, .set = check_variables, .is_passed_on = true},
	[CONFIG_STATIC_PARTITIONING] = {"static_partitioning", NULL, "no",
		.effect = CONFIG_AFTER_RESTART, .set = set_switch, AT(is_partitioned)},
	[CONFIG_METRICS_LISTEN] = {"metrics_listen", "MPS_METRICS_LISTEN", "off",
		.effect = CONFIG_AT_ONCE, .set = set_metrics_listen},
};

const char *config_key_name(enum config_key key)
{
	return keys[key].name;
}

const char *config_key_variable(enum config_key key)
{
	return keys[key].variable;
}

enum config_effect config_key_effect(enum config_key key)
{
	return keys[key].effect;
}

enum config_key config_key_find(const char *name)
{
	enum config_key key = 0;

	while (key < CONFIG_KEYS && strcmp(keys[key].name, name) != 0)
		key++;
	return key;
}

int config_key_check(enum config_key key, const char *value, struct error_message *error)
{
	/* The values are dropped. Static, as paths are long. */
	static struct config scratch;

	/* The daemon that reads the file has another current directory than the operator. */
	if ((key == CONFIG_PIPE_DIRECTORY || key == CONFIG_LOG_DIRECTORY) && *value != '/')
		return error_message_set(
			error, -EINVAL, "it takes the absolute path of a directory");
	return keys[key].set(&keys[key], &scratch, value, error);
}

/* The variable's value; an empty one counts as not set. */
static const char *environment_text(enum config_key key)
{
	const char *value = keys[key].variable ? getenv(keys[key].variable) : NULL;

	/* Without any GPU is what an empty list of GPUs means. */
	return value && (*value || key == CONFIG_VISIBLE_DEVICES) ? value : NULL;
}

bool config_key_is_in_environment(enum config_key key)
{
	return environment_text(key);
}

const char *config_key_text(enum config_key key, const struct config_values *file)
{
	const char *value = environment_text(key);

	if (!value && file)
		value = file->of[key].text;
	return value ? value : keys[key].fallback;
}

static int load_key(enum config_key key, struct config *config, struct error_message *error)
{
	const char *value = config_key_text(key, config->file);
	struct error_message why;
	int r;

	if (!value || keys[key].is_passed_on)
		return 0;
	r = keys[key].set(&keys[key], config, value, &why);
	/* The file's values have been checked, so this one is of the environment. */
	return r < 0 ? error_message_set(
			       error, r, "%s is \"%.64s\": %s", keys[key].variable, value, why.text)
		     : 0;
}

void config_key_apply(enum config_key key, struct config *config)
{
	struct error_message error;

	(void)load_key(key, config, &error);
}

/* Only root can create the default directory: another user's logs are beside the socket. */
static void move_default_logs(struct config *config)
{
	const bool is_chosen = config_key_text(CONFIG_LOG_DIRECTORY, config->file) !=
			       keys[CONFIG_LOG_DIRECTORY].fallback;

	if (is_chosen || config->uid == 0 || access(LOG_DIRECTORY_DEFAULT, W_OK) == 0)
		return;
	snprintf(config->log_directory, sizeof(config->log_directory), "%.*s/log", SOCKET_PATH_MAX,
		config->pipe_directory);
}

int config_load(
	struct config *config, const struct config_values *file, struct error_message *error)
{
	int r = 0;

	memset(config, 0, sizeof(*config));
	config->uid = geteuid();
	config->file = file;
	for (enum config_key key = 0; key < CONFIG_KEYS && r == 0; key++)
		r = load_key(key, config, error);
	move_default_logs(config);
	return r;
}

int config_load_server_user(struct config *config, struct error_message *error)
{
	const char *name = config_key_text(CONFIG_SERVER_USER, config->file);
	const struct passwd *entry;

	if (config->uid != 0)
		return error_message_set(error, -EPERM,
			"One server for all users (-M, multiuser_server) needs a daemon of root: "
			"start the daemon as root, or leave that out");
	if (!name)
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

const char *config_metrics_address(const struct config *config)
{
	const char *option = config->metrics_option;

	if (!option)
		return config->metrics_listen;
	return strcmp(option, "off") == 0 ? "" : option;
}
