/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_SYSTEM_H
#define FAKE_SYSTEM_H

/*
 * The system that the daemon uses, simulated: the peers of its connections, server
 * processes, the record of servers, and time.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* No process has such a PID (the kernel's PID_MAX_LIMIT is 2^22). */
#define FAKE_PID_FIRST (1 << 30)

#define FAKE_SERVERS_MAX 64

/*
 * Processes from this PID on are in a user namespace, whose owner is another one for each of
 * FAKE_OWNERS processes.
 */
#define FAKE_PID_NESTED (FAKE_PID_FIRST + 2000)
#define FAKE_OWNERS 8

struct fake_server {
	pid_t pid;
	uid_t uid;
	int end_fd; /* an eventfd, which is readable when the process has ended */
	int output; /* the end that the server writes; negative: closed */
	int link;   /* its end of a connection to the daemon, if a test sets it; negative: closed */
	int status; /* as waitpid() returns it */
	int has_ended;
};

struct fake_system {
	struct fake_server servers[FAKE_SERVERS_MAX];
	unsigned n_servers;
	unsigned n_recorded; /* servers of the previous daemon, which are in the record */
	const struct fake_server *unrecorded; /* the last server, if no record was written since */
	uint64_t now_ms;
	uint64_t build;          /* of the installed mps-server */
	uint32_t spawn_failures; /* bit i: the start of server i fails */
	uint32_t deaf;           /* bit i: server i ignores SIGTERM */
};

extern struct fake_system fake_system;

/* Removes all traces of an earlier input. */
void fake_system_reset(void);

/* Adds a running server that is in the record. */
void fake_system_record(uid_t uid);

/* Sets the peer of `fd'. */
void fake_system_set_cred(int fd, pid_t pid, uid_t uid);

/* The process ends. */
void fake_server_end(struct fake_server *server, int status);

#endif
