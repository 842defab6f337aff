/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NOTIFY_H
#define NOTIFY_H

/*
 * The protocol of the service manager: what sd_notify(3), sd_watchdog_enabled(3)
 * and sd_listen_fds(3) do. It is written here because sd_notify() may block,
 * which the daemon's loop must not.
 */

#include "base.h"

/* A socket for notify_send(). The caller owns it. -ENOENT: there is no service manager. */
int notify_connect(void);

/* Sends the state. Never blocks: -EAGAIN if the service manager does not read. */
int notify_send(int fd, const char *state);

/* The time after which a service that has sent no WATCHDOG=1 is ended; 0: the manager waits for
 * none. */
uint64_t notify_watchdog_us(void);

/*
 * The listening socket that it passes to the daemon. The caller owns it.
 * -ENOENT: no socket was passed; -errno: it cannot be used.
 */
int notify_take_listener(void);

#endif
