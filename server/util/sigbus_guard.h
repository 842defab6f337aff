/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIGBUS_GUARD_H
#define SIGBUS_GUARD_H

/*
 * A file that a client has registered may be cut short while it is mapped
 * here. The GPU has its pages, which are pinned; a thread of this process that
 * looked there, and the driver has some, would get a SIGBUS.
 */

/* It finds zeros instead. Once, before there are threads. */
void sigbus_guard_init(void);

#endif
