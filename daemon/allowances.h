/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOWANCES_H
#define ALLOWANCES_H

/*
 * What users may take of the daemon, each limit with its reason. A guest is a
 * user that the daemon does not trust: neither root nor its own. Limits that
 * all guests share leave a reserve, so that root and commands are served
 * whatever guests do; a user may have many UIDs (subordinate ones), so a limit
 * of one UID is not enough.
 */

/* Connections for commands, of one UID: an operator's scripts. */
#define COMMAND_CONNS_MAX 256
#define GUEST_COMMAND_CONNS_MAX 64
/* ... of one UID that wait for one of those to end, and for how long before a silent one has to. */
#define QUEUED_COMMAND_CONNS_MAX 1024
#define QUEUED_COMMAND_CONN_MS 10000

/* Connections of all guests: each has a buffer of some kilobytes. */
#define GUEST_CONNS_MAX 8192

/* Descriptors that guests' connections leave: our own files, and root's connections. */
#define RESERVED_FDS 64
/* A server's process, its connection and the pipe of its lines; one to spare. */
#define SERVER_FDS 4

/* UIDs that are known at a time; one without server or connection is soon forgotten. */
#define TENANTS_MAX 16384

/* Each server keeps a context on each GPU that it uses: half a gigabyte. (MPS_SERVERS_MAX) */
#define SERVERS_MAX_DEFAULT 64
#define SERVERS_MAX_MAX 4096
#define RESERVED_SERVERS 1

/* How long a server without clients stays. (MPS_IDLE_S) */
#define IDLE_S_DEFAULT 3600
#define IDLE_S_MAX 31536000

/* Sessions of all servers: each is a thread and some descriptors. */
#define ALL_SESSIONS_MAX 8192
#define RESERVED_SESSIONS 256

/* Sessions of one process, which has one, and more for moments: it executes another program. */
#define PROCESS_SESSIONS_MAX 16

/* Servers that a guest may start at once, and then each second; and all guests together. */
#define STARTS_MAX 10
#define STARTS_PER_S 1
#define ALL_STARTS_MAX 60
#define ALL_STARTS_PER_S 6

/*
 * A program that has caused a GPU fault waits so long for its next start, and
 * twice as long after each further fault, until it has caused none for a while.
 */
#define FAULT_WAIT_MS 250u
#define FAULT_WAIT_MAX_MS 2000u
#define FAULT_MEMORY_MS 60000u

/*
 * A program that has caused so many faults within FAULT_MEMORY_MS has a server of its own, until
 * it has caused none for a longer while.
 */
#define QUARANTINE_FAULTS 2u
#define QUARANTINE_MS 600000u

/* Isolated programs of one UID, each with a server and its contexts. */
#define ISOLATED_MAX 8

/* How long the server of one stays without clients: the program has ended, or starts again. */
#define ISOLATED_IDLE_S 10

/* Lines of control.log that a guest's connections may cause: thousands of clients are told of. */
#define CONTROL_LINES_MAX 10000
#define CONTROL_LINES_PER_S 100

/* Of each log, and as much again of the one before. (MPS_LOG_MAX_MIB) */
#define LOG_MAX_MIB_DEFAULT 100
#define LOG_MAX_MIB_MAX 1048576

/* Lines of server.log that a user's servers may write. */
#define SERVER_LINES_MAX 10000
#define SERVER_LINES_PER_S 500

#endif
