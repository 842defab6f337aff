/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRIORITY_H
#define PRIORITY_H

/*
 * The daemon's nice value. The loop answers commands while processes of users occupy all CPUs.
 */

/* Main thread, before other threads start. Without CAP_SYS_NICE the value stays as it is. */
void priority_raise(void);

/* In a child of the daemon, between fork and exec: the value before priority_raise(). */
void priority_restore(void);

#endif
