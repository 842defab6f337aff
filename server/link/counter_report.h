/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COUNTER_REPORT_H
#define COUNTER_REPORT_H

/*
 * The counters of all clients: samples of the time at work, and the reports to the daemon.
 * Loop thread.
 */

#include <stdint.h>
#include <uv.h>

struct client_conn;

struct work_sampler {
	uv_timer_t timer;                 /* runs while a client has work */
	struct client_conn *const *conns; /* not owned */
	uint64_t last_ns;                 /* time of the last sample */
	unsigned n_idle;                  /* samples since a client had work */
};

void sampler_init(struct work_sampler *sampler, uv_loop_t *loop, struct client_conn *const *conns);

/* Starts to sample if a client has work. */
void sampler_start(struct work_sampler *sampler);

/* The reply to the daemon's FRAME_COUNTERS. */
void counters_report(const struct client_conn *conns);

/* One client's counters. */
void counters_report_client(const struct client_conn *conn);

#endif
