/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NOTIFY_H
#define NOTIFY_H

/*
 * The service manager, if there is one. libsystemd is loaded only if the
 * manager's variables are set, so that the program also runs on systems that
 * have only libc.
 */

#include "base.h"

/* Sends it the daemon's state (see sd_notify(3)); does nothing without NOTIFY_SOCKET. */
void notify_state(const char *state);

/*
 * The listening socket that it passes to the daemon. The caller owns it.
 * -ENOENT: no socket was passed; -errno: it cannot be used.
 */
int notify_take_listener(void);

#endif
