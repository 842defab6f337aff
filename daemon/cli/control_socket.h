/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTROL_SOCKET_H
#define CONTROL_SOCKET_H

/* The front end's connection to the daemon. Any thread. */

#include "daemon/config/config.h"

/*
 * Connects to the socket of the daemon. A daemon whose queue of connections is full gets
 * `wait_ms' milliseconds. Returns a non-blocking descriptor, or -errno; -EAGAIN: the queue
 * stayed full.
 */
int control_socket_connect(const struct config *config, int wait_ms);

#endif
