/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGER_H
#define MANAGER_H

/*
 * What the service manager knows of the daemon: whether it is ready, reloads or
 * stops, how many servers and clients it has, and that its loop runs. Without a
 * service manager these functions do nothing. Loop thread; a thread of libuv's pool
 * sends one message after another.
 */

#include <uv.h>

#include "base.h"

struct daemon;

#define MANAGER_STATE_MAX 160

enum manager_message {
	MESSAGE_NONE,
	MESSAGE_RELOAD,
	MESSAGE_SIGN, /* of life */
	MESSAGE_STATE,
};

struct manager {
	bool is_there;
	bool is_stopping;
	bool needs_sign;
	uint64_t reload_us;           /* when a reload began that it does not know; 0: none */
	enum manager_message sending; /* while a thread reads `message', and writes `result' */
	int result;
	char message[MANAGER_STATE_MAX];
	char sent[MANAGER_STATE_MAX]; /* the state that it has got */
	uv_work_t work;
	uv_prepare_t prepare; /* sends what events have changed */
	uv_timer_t pause;     /* active: the next state has to wait */
	uv_timer_t watchdog;
};

/* The daemon accepts connections: says so, and keeps the service manager informed from now on. */
void manager_start(struct daemon *daemon);

/* The loop closes the handles. */
void manager_stop(struct daemon *daemon);

/* The configuration file is applied in this turn of the loop. */
void manager_say_reload(struct daemon *daemon);

/*
 * The daemon ends now. From this moment on the service manager limits how long
 * that may take, so the daemon does not say it while it waits for clients.
 */
void manager_say_stopping(struct daemon *daemon);

#endif
