/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIGBUS_GUARD_H
#define SIGBUS_GUARD_H

/*
 * A client may truncate a file that it has registered and that is mapped here. The GPU keeps
 * the pages, which are pinned, but a thread of this process (or of the driver) that reads
 * there would get a SIGBUS.
 */

/* Makes such a read return zeros. Called once, before other threads start. */
void sigbus_guard_init(void);

#endif
