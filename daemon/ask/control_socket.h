/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTROL_SOCKET_H
#define CONTROL_SOCKET_H

/* Connections of the front end and of other programs to the daemon. Any thread. */

#include "base.h"

/*
 * A line that consists of EOT is answered by EOT, which ends the replies to earlier commands.
 * After a line that consists of NAK, NAK begins a line that says which command has failed, and SYN
 * begins a line that is no reply but for the person at the terminal.
 */
#define COMMAND_EOT '\x04'
#define COMMAND_NAK '\x15'
#define COMMAND_SYN '\x16'

/*
 * Connects to the socket of the daemon. A daemon whose queue of connections is full gets
 * `wait_ms' milliseconds. Returns a non-blocking descriptor, or -errno; -EAGAIN: the queue
 * stayed full.
 */
int control_socket_connect(const char *path, int wait_ms);

#endif
