/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULTS_H
#define FAULTS_H

/*
 * The last GPU faults: the reports of servers, and the address from the
 * kernel's log. Loop thread.
 */

#include <sys/types.h>
#include <time.h>

#include "frame.h"
#include "daemon/text/group_name.h"
#include "daemon/config/devices.h"

struct daemon;
struct server;
struct xid;

#define FAULTS_MAX 16

/* A client at the time of the fault. */
struct fault_client {
	uint64_t id;
	pid_t pid;
	uid_t uid;
	uint32_t program;
	char group[GROUP_NAME_MAX]; /* its name at that time; "": none */
	char command[FRAME_TEXT_MAX];
};

struct fault {
	uint64_t serial; /* rising; 0: none */
	struct timespec time;
	pid_t server;
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

/* A server reports a fault. -EBADMSG: the frame is malformed. */
int faults_on_frame(struct server *server, const struct frame_fault *frame);

/* A server has entered FAULT: sends it the address if it is known. */
void faults_on_state(struct server *server);

/* The kernel's log reports a fault: returns whether it was of a server that is in FAULT. */
bool faults_on_xid(struct daemon *daemon, const struct xid *xid);

/* Sends the server the address that it was not sent yet, if its socket takes it now. */
void faults_send_address(struct server *server);

/* The nth last fault that the user may see, from 0 on; NULL: there are no more. */
const struct fault *faults_get(const struct daemon *daemon, uid_t uid, unsigned nth);

/* Whether the client that caused the fault is known. */
static inline bool fault_is_certain(const struct fault *fault)
{
	return fault->how != FAULT_SUSPECTS;
}

/* The evidence, as part of a sentence. */
const char *fault_how_text(const struct fault *fault);

void faults_fini(struct faults *faults);

#endif
