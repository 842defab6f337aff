/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FOLLOW_H
#define FOLLOW_H

/*
 * The session of this process moves to another server (restart_server). The connection, the ring
 * and the staging memory stay; the page of the other server takes the place of the old one. The
 * server has written FAULT_MOVING into the page, so each call comes here.
 */

#include "server_link.h"

/*
 * Waits until the session has moved, or stays. CUDA_ERROR_MPS_RPC_FAILURE: both servers have
 * ended. Any thread, with any locks of calls.
 */
CUresult follow(struct server_link *link);

/* For a forked child. */
void follow_forget(void);

#endif
