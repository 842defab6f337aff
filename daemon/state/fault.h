/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULT_H
#define FAULT_H

/* What is known of a GPU fault: see faults.h. */

#include <sys/types.h>
#include <time.h>

#include "frame.h"
#include "server_name.h"
#include "daemon/config/devices.h"

#define FAULTS_MAX 16

/* A client at the time of the fault. */
struct fault_client {
	uint64_t id;
	pid_t pid;
	uid_t uid;
	uint32_t program;
	bool is_victim;             /* it does not survive */
	bool has_lost_work;         /* it survives without its work (MPS_ON_FAULT) */
	char group[GROUP_NAME_MAX]; /* its name at that time; "": none */
	char command[FRAME_TEXT_MAX];
};

struct fault_lost {
	struct fault_client client;
	char why[MOVE_TEXT_MAX];
};

struct fault {
	uint64_t serial; /* rising; 0: none */
	struct timespec time;
	pid_t server;
	char server_name[SERVER_NAME_MAX];
	uid_t server_uid;
	uint32_t result, how;
	uint64_t address; /* 0: not known */
	bool has_device;
	uint32_t ordinal;
	char uuid[DEVICE_UUID_TEXT], pci_bus_id[32], device_name[FRAME_TEXT_MAX];
	char result_name[64], kernel[FRAME_TEXT_MAX];
	unsigned n_suspects; /* including those that do not fit into the list */
	unsigned n;          /* in the list; 1 if the client that caused it is known */
	struct fault_client clients[FAULT_SUSPECTS_MAX];
	unsigned n_survivors; /* clients that went on, including those that do not fit into the list
			       */
	struct fault_client survivors[FAULT_SUSPECTS_MAX];
	pid_t next_server; /* ... in this one */
	unsigned n_lost;   /* clients that do not survive: those of `clients', those that do not fit
			      into the list, and the list */
	struct fault_lost lost[FAULT_SUSPECTS_MAX];
	unsigned n_affected; /* UIDs that had clients in the server */
	uid_t *affected;
};

/* What the kernel's log says about a server's fault. */
struct fault_address {
	bool is_known; /* the address, or that the log cannot be read */
	bool is_sent;  /* ... and the server was sent it */
	uint64_t address;
	uint32_t ordinal;
};

struct faults {
	uint64_t last;
	struct fault list[FAULTS_MAX];
};

#endif
