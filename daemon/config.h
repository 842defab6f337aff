/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_H
#define CONFIG_H

/*
 * The configuration from the environment: the daemon's directories and what
 * its servers get. Read once, at the start.
 */

#include <limits.h>
#include <sys/types.h>
#include <sys/un.h>

#include "bounds.h"
#include "error_message.h"

struct config {
	char pipe_directory[PATH_MAX]; /* absolute, without a slash at its end */
	char log_directory[PATH_MAX];  /* the same */
	char socket_path[SOCKET_PATH_MAX + 1];
	uid_t uid;                 /* of the daemon: 0 serves all users, another UID only itself */
	char kernel_log[PATH_MAX]; /* MPS_KERNEL_LOG */
	unsigned grace_ms;         /* MPS_GRACE_MS */
	unsigned servers_max;      /* MPS_SERVERS_MAX */
	unsigned log_max_mib;      /* MPS_LOG_MAX_MIB, of each log; 0: no limit */
	unsigned idle_s;           /* MPS_IDLE_S; 0: servers without clients stay */
	bool groups_by_cgroup;     /* MPS_GROUP_BY_CGROUP */

	/* From the command line of the daemon: */
	bool is_multiuser;   /* -M: one server for all users, with this UID: */
	uid_t server_uid;    /* MPS_SERVER_USER */
	bool is_partitioned; /* -S: static partitions of SMs */
};

/* Fills `config' for the daemon and for the command line. 0 or -errno with an error message. */
int config_load(struct config *config, struct error_message *error);

/* For -M: the user of the server, MPS_SERVER_USER or `mps'. 0 or -errno with an error message. */
int config_load_server_user(struct config *config, struct error_message *error);

/* The address of the control socket, for bind() and connect(). */
struct sockaddr_un config_address(const struct config *config);

/*
 * The environment of a server, as execve() takes it: an explicit list of
 * variables. The caller owns it; NULL without memory.
 */
char **config_environment(const struct config *config);
void config_environment_free(char **environment);

#endif
