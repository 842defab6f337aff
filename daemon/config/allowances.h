/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOWANCES_H
#define ALLOWANCES_H

/*
 * What each user may take of the daemon: each limit with its reason. A guest
 * is a user that the daemon does not trust: neither root nor the daemon's own
 * user. The limits that all guests share leave a reserve, so that the daemon
 * serves root and commands whatever guests do. A user may have many UIDs
 * (subordinate ones), so what all guests share is divided among accounts
 * (account.h), not UIDs.
 */

/* Command connections of one account: the scripts of an operator. */
#define COMMAND_CONNS_MAX 256
#define GUEST_COMMAND_CONNS_MAX 64
/*
 * Command connections of one account that wait until another one ends, and how
 * long they wait before a silent one is closed for them. That is before a front
 * end asks for a sign of life (cli.c): its second connection would wait, too.
 */
#define QUEUED_COMMAND_CONNS_MAX 1024
#define QUEUED_COMMAND_CONN_MS 8000

/* Connections of all guests: each has a buffer of some kilobytes. */
#define GUEST_CONNS_MAX 8192

/*
 * Descriptors that the connections of guests leave free for the daemon's files
 * and root's connections.
 */
#define RESERVED_FDS 128
/* For each server: its process, its connection and the pipe of its output; one to spare. */
#define SERVER_FDS 4

/*
 * UIDs that the daemon keeps in memory; a UID without a server or a connection
 * is soon forgotten.
 */
#define TENANTS_MAX 16384

/* Each server keeps a context of half a gigabyte on each GPU that it uses. (MPS_SERVERS_MAX) */
#define SERVERS_MAX_DEFAULT 64
#define SERVERS_LIMIT 4096
#define RESERVED_SERVERS 1

/* How long a server without clients stays. (MPS_IDLE_S) */
#define IDLE_S_DEFAULT 3600
#define IDLE_S_MAX 31536000

/*
 * Sessions of all servers: each is a thread and some descriptors. An account has no more of
 * them than it leaves to other guests.
 */
#define ALL_SESSIONS_MAX 8192
#define RESERVED_SESSIONS 256

/* Sessions of one process: it has one, and briefly more when it executes another program. */
#define PROCESS_SESSIONS_MAX 16

/* How many servers an account may start at once, and then each second; and all guests together. */
#define STARTS_MAX 10
#define STARTS_PER_S 1
#define ALL_STARTS_MAX 60
#define ALL_STARTS_PER_S 6

/*
 * After a GPU fault a program waits this long for its next start, and twice as
 * long after each further fault, until it has caused no fault for a while.
 */
#define FAULT_WAIT_MS 250u
#define FAULT_WAIT_MAX_MS 2000u

/*
 * A program that has caused this many faults within FAULT_MEMORY_MS (bounds.h) gets a
 * server of its own. Until it has caused no fault for PROBATION_MS, it stays
 * there; after fewer faults it is on probation so long.
 */
#define QUARANTINE_FAULTS 2u

/* Isolated programs of one account, each with a server and its contexts. */
#define ISOLATED_MAX 8

/* Named servers of one account of a guest, and namespaces of one of its servers. */
#define NAMED_SERVERS_MAX 8
#define NAMESPACES_MAX 32

/*
 * How long the server of an isolated program stays without clients: the
 * program has ended or restarts.
 */
#define ISOLATED_IDLE_S 10

/* Lines of control.log that the connections of an account may cause: for thousands of clients. */
#define CONTROL_LINES_MAX 10000
#define CONTROL_LINES_PER_S 100

/* The size of each log; its predecessor may have as much again. (MPS_LOG_MAX_MIB) */
#define LOG_MAX_MIB_DEFAULT 100
#define LOG_MAX_MIB_MAX 1048576

/* Lines of server.log that the servers of an account may write. */
#define SERVER_LINES_MAX 10000
#define SERVER_LINES_PER_S 500

#endif
