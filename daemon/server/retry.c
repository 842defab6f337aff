/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Actions that had to wait. Loop thread.
 *
 * Invariant: an action that still has to wait asks again, so the timer does not repeat.
 */

#include "retry.h"

#include "probe.h"
#include "servers_record.h"
#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"

#define RETRY_MS 250

static void on_retry_timer(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;

	if (daemon->is_probe_due)
		probe_again(daemon);
	if (daemon->is_record_due)
		servers_record(daemon);
	slots_progress(daemon);
}

void retry_soon(struct daemon *daemon)
{
	if (!uv_is_active((uv_handle_t *)&daemon->retry_timer))
		uv_timer_start(&daemon->retry_timer, on_retry_timer, RETRY_MS, 0);
}
