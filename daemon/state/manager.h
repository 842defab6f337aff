/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGER_H
#define MANAGER_H

/*
 * What the service manager knows of the daemon: whether it is ready, reloads or
 * stops, how many servers and clients it has, and that its loop runs. Without a
 * service manager these functions do nothing. Loop thread.
 */

#include <uv.h>

#include "base.h"

struct daemon;

#define MANAGER_STATE_MAX 160

struct manager {
	int fd; /* negative: there is no service manager */
	bool is_stopping;
	char sent[MANAGER_STATE_MAX]; /* the state that it has got */
	uv_prepare_t prepare;         /* sends the state if events have changed it */
	uv_timer_t pause;             /* active: the next state has to wait */
	uv_timer_t watchdog;
};

/* The daemon accepts connections: says so, and keeps the service manager informed from now on. */
void manager_start(struct daemon *daemon);

/* The loop closes the handles. */
void manager_stop(struct daemon *daemon);

/* Around the time in which the configuration file is applied. */
void manager_begin_reload(struct daemon *daemon);
void manager_end_reload(struct daemon *daemon);

/*
 * The daemon ends now. From this moment on the service manager limits how long
 * that may take, so the daemon does not say it while it waits for clients.
 */
void manager_say_stopping(struct daemon *daemon);

#endif
