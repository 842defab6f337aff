/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_H
#define CONFIG_H

/*
 * The configuration of the daemon: its directories, its limits and what its
 * servers get. Each key has a value of the environment, else of the section
 * [daemon] of the configuration file, else a default.
 *
 * Read at the start; some keys also when the file is read again.
 */

#include <limits.h>
#include <sys/types.h>
#include <sys/un.h>

#include "bounds.h"
#include "metrics_address.h"
#include "daemon/text/error_message.h"

/* The keys of the section [daemon]. */
enum config_key {
	CONFIG_PIPE_DIRECTORY,
	CONFIG_LOG_DIRECTORY,
	CONFIG_LOG_MAX_MIB,
	CONFIG_LOG_LEVEL,
	CONFIG_KERNEL_LOG,
	CONFIG_GRACE_MS,
	CONFIG_IDLE_S,
	CONFIG_SERVERS_MAX,
	CONFIG_MOVE_ON_UPGRADE,
	CONFIG_SPARE_SERVER,
	CONFIG_GROUP_BY_CGROUP,
	CONFIG_CGROUP_ROOT,
	CONFIG_CLIENT_HOST_MIB,
	CONFIG_FOREGROUND_SLOWDOWN,
	CONFIG_BACKGROUND_FLOOR,
	CONFIG_OVERSUBSCRIBE_HOST,
	CONFIG_OVERSUBSCRIBE_STAY,
	CONFIG_CUDA_LIBRARY,
	CONFIG_VISIBLE_DEVICES,
	CONFIG_DEVICE_ORDER,
	CONFIG_MULTIUSER_SERVER,
	CONFIG_TRUST_CONTAINER_ROOT,
	CONFIG_SERVER_USER,
	CONFIG_SERVER_ENV,
	CONFIG_STATIC_PARTITIONING,
	CONFIG_METRICS_LISTEN,
	CONFIG_KEYS,
};

/* When a new value has effect after the file was read again. */
enum config_effect {
	CONFIG_AT_ONCE,
	CONFIG_FOR_NEW_SERVERS,
	CONFIG_AFTER_RESTART,
};

/* The values of the configuration file, which owns them; line 0: the file has none. */
struct config_values {
	struct config_value {
		char *text;
		unsigned line;
	} of[CONFIG_KEYS];
};

struct config {
	char pipe_directory[PATH_MAX]; /* absolute, without a slash at its end */
	char log_directory[PATH_MAX];  /* the same */
	char socket_path[SOCKET_PATH_MAX + 1];
	uid_t uid;                  /* of the daemon: 0 serves all users, another UID only itself */
	char kernel_log[PATH_MAX];  /* MPS_KERNEL_LOG */
	char cgroup_root[PATH_MAX]; /* MPS_CGROUP_ROOT */
	unsigned grace_ms;          /* MPS_GRACE_MS */
	unsigned servers_max;       /* MPS_SERVERS_MAX */
	unsigned log_max_mib;       /* MPS_LOG_MAX_MIB, of each log; 0: no limit */
	unsigned idle_s;            /* MPS_IDLE_S; 0: servers without clients stay */
	bool moves_on_upgrade;      /* MPS_MOVE_ON_UPGRADE */
	bool keeps_spares;          /* MPS_SPARE_SERVER */
	bool groups_by_cgroup;      /* MPS_GROUP_BY_CGROUP */
	bool trusts_container_root; /* root is trusted by sockets of namespaces, too */
	bool is_verbose;            /* the log level at the start is debug */
	char metrics_listen[METRICS_LISTEN_MAX]; /* MPS_METRICS_LISTEN: [ADDRESS:]PORT, "": off */

	unsigned protocol; /* 2 or 3: as which daemon of the vendor it starts */

	/* From the command line of the daemon, too: */
	bool is_multiuser;   /* -M: one server for all users, with this UID: */
	uid_t server_uid;    /* MPS_SERVER_USER */
	bool is_partitioned; /* -S: static partitions of SMs */
	/* -m: instead of `metrics_listen'; not owned; NULL: not given */
	const char *metrics_option;

	const struct config_values *file; /* not owned; NULL: there is none */
};

/*
 * Fills `config' for the daemon and for the command line. `file' (or NULL) has
 * checked values and outlives `config'. 0 or -errno with an error message.
 */
int config_load(
	struct config *config, const struct config_values *file, struct error_message *error);

/*
 * For one server for all users: that server's user, MPS_SERVER_USER or `mps',
 * and the right to start it. 0 or -errno with an error message.
 */
int config_load_server_user(struct config *config, struct error_message *error);

/* The file with the ranges of subordinate UIDs: MPS_SUBUID_FILE or /etc/subuid. */
const char *config_subuid_path(void);

/* ---- keys */

const char *config_key_name(enum config_key key);

/* The environment variable; NULL: there is none. */
const char *config_key_variable(enum config_key key);

enum config_effect config_key_effect(enum config_key key);

/* The key of that name, or CONFIG_KEYS. */
enum config_key config_key_find(const char *name);

/*
 * Whether the key takes the value; else -errno, and `error' has what the key
 * takes: "it takes …".
 */
int config_key_check(enum config_key key, const char *value, struct error_message *error);

/* Whether the environment has a value for the key, which then counts instead of the file's. */
bool config_key_is_in_environment(enum config_key key);

/* The value of the environment, else of the file (or NULL), else NULL: the default. */
const char *config_key_text(enum config_key key, const struct config_values *file);

/* Sets the key anew, from the environment, the file or the default. The value is checked. */
void config_key_apply(enum config_key key, struct config *config);

/* Where the metrics can be read; "": nowhere. */
const char *config_metrics_address(const struct config *config);

/* ---- the environment of a server (config_environment.c) */

/*
 * The environment of a server, as execve() takes it: an explicit list of
 * variables. `devices' are its GPUs, NULL: those of the daemon. The caller owns
 * it; NULL without memory.
 */
char **config_environment(const struct config *config, const char *devices);
void config_environment_free(char **environment);

#endif
