/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORDERS_H
#define ORDERS_H

/*
 * What the server does for the daemon, and what it tells another daemon. Loop thread.
 */

#include "server/link/daemon_link.h"

extern const struct daemon_link_ops orders_ops;

#endif
