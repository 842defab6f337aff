/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NOTIFY_H
#define NOTIFY_H

/*
 * The service manager, if there is one: libsystemd is opened only where its
 * variables are set, so that the program starts where libc is alone.
 */

#include "base.h"

/* Tells it our state (see sd_notify(3)); does nothing without NOTIFY_SOCKET. */
void notify_state(const char *state);

/*
 * The listening socket that it made for us. The caller owns it. -ENOENT if
 * there is none; -errno if there is one that cannot be used.
 */
int notify_take_listener(void);

#endif
