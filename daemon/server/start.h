/* SPDX-License-Identifier: Apache-2.0 */
#ifndef START_H
#define START_H

/* Decides whether a slot may start a server now, and starts it. Loop thread. */

struct error_message;
struct slot;

/* What start_server_for() can return besides 0. The last two come with an error message. */
enum {
	START_LATER = 1, /* not now: slots_progress() follows */
	START_REFUSED,   /* as many servers run as may */
	START_FAILED,
};

/* Starts a server for the waiting connections. */
int start_server_for(struct slot *slot, struct error_message *error);

#endif
