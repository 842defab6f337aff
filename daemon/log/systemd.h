/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYSTEMD_H
#define SYSTEMD_H

/*
 * What libsystemd does for the daemon. Without the library at build time these functions find no
 * service manager. Any thread.
 */

#include <sys/uio.h>

#include "base.h"

/* Whether a service manager has started the daemon. */
bool systemd_has_manager(void);

/* Tells it the state; may block. 0 or -errno. */
int systemd_notify(const char *state);

/* The time after which a service that has sent no WATCHDOG=1 is ended; 0: the manager waits for
 * none. */
uint64_t systemd_watchdog_us(void);

/*
 * The listening socket that it passes to the daemon. The caller owns it.
 * -ENOENT: no socket was passed; -errno: it cannot be used.
 */
int systemd_take_listener(void);

/* Sends fields "NAME=VALUE" to the journal; may block. Without a journal it does nothing. */
void systemd_journal(const struct iovec *fields, int n_fields);

#endif
