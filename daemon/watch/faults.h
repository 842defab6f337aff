/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULTS_H
#define FAULTS_H

/*
 * The last GPU faults: the reports of servers, and the address from the
 * kernel's log. Loop thread.
 */

#include <sys/types.h>

#include "frame.h"
#include "daemon/state/fault.h"
#include "daemon/server/server_watch.h"

struct daemon;
struct server;
struct xid;

/* A server reports a fault. -EBADMSG: the frame is malformed. */
int faults_on_frame(struct server *server, const struct frame_fault *frame);

/*
 * Why a client does not survive the fault of its server, or that it has lost its work. -EBADMSG:
 * the frame is malformed.
 */
int faults_on_lost_client(struct server *server, const struct frame_fault_client *frame);

/* A server has entered FAULT: sends it the address if it is known. */
void faults_on_state(struct server *server);

/* The kernel's log reports a fault: returns whether it was of a server that is in FAULT. */
bool faults_on_xid(struct daemon *daemon, const struct xid *xid);

extern const struct server_watch faults_watch;

/* The nth last fault that the user may see, from 0 on; NULL: there are no more. */
const struct fault *faults_get(const struct daemon *daemon, uid_t uid, unsigned nth);

/* Whether the client that caused the fault is known. */
static inline bool fault_is_certain(const struct fault *fault)
{
	return fault->how != FAULT_SUSPECTS;
}

/* The evidence, as part of a sentence. */
const char *fault_how_text(const struct fault *fault);

/* Whether the fault's `clients' have it: the culprit, or a suspect. */
bool fault_names(const struct fault *fault, uint64_t id);

/* Clients that do not survive, beside those that it names. */
unsigned fault_count_lost(const struct fault *fault);

void faults_fini(struct faults *faults);

#endif
