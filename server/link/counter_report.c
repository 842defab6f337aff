/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: the timer runs, or `sampler_rests' is set, and then a worker whose stream gets
 * work wakes the loop.
 */

#include "counter_report.h"

#include <stdio.h>

#include "client.h"
#include "clock.h"
#include "daemon_link.h"
#include "server/session/at_work.h"
#include "server/session/counting.h"
#include "server/device/device.h"
#include "server/device/device_quota.h"
#include "server/schedule/classes.h"
#include "server/schedule/elastic.h"
#include "server/share/eviction.h"
#include "server/share/host_store.h"

_Static_assert(FRAME_TEXT_MAX == KERNEL_NAME_MAX, "a frame has the whole name");

/* How often the loop samples sessions with work. */
#define SAMPLE_MS 10

/* In so many streams. A client with more is rare, and hardly idle. */
#define MARKS_SAMPLED 256u

/* One second without work. */
#define IDLE_SAMPLES (1000 / SAMPLE_MS)

/* After a delay of the loop it is not known whether the clients were at work meanwhile. */
#define SAMPLE_NS_MAX (10000000ull * SAMPLE_MS)

static bool sample_all(const struct work_sampler *sampler, uint64_t ns)
{
	bool has_work = false;

	for (const struct client_conn *conn = *sampler->conns; conn; conn = conn->next) {
		if (session_is_at_work_in(conn->session, MARKS_SAMPLED))
			counter_add(conn->session, COUNTER_BUSY, ns);
		has_work |= atomic_load_explicit(&conn->session->has_work, memory_order_relaxed);
	}
	return has_work;
}

static void on_sample(uv_timer_t *timer)
{
	struct work_sampler *sampler = timer->data;
	uint64_t now = uv_hrtime();

	sampler->n_idle = sample_all(sampler, MIN(now - sampler->last_ns, SAMPLE_NS_MAX))
				  ? 0
				  : sampler->n_idle + 1;
	sampler->last_ns = now;
	if (sampler->n_idle < IDLE_SAMPLES)
		return;
	uv_timer_stop(timer);
	atomic_store(&sampler_rests, true);
	/* A worker may have looked at the flag just before. */
	if (sample_all(sampler, 0))
		sampler_start(sampler);
}

void sampler_init(struct work_sampler *sampler, uv_loop_t *loop, struct client_conn *const *conns)
{
	uv_timer_init(loop, &sampler->timer);
	sampler->timer.data = sampler;
	sampler->conns = conns;
	atomic_store(&sampler_rests, true);
}

void sampler_start(struct work_sampler *sampler)
{
	if (uv_is_active((uv_handle_t *)&sampler->timer) || !sample_all(sampler, 0))
		return;
	atomic_store(&sampler_rests, false);
	sampler->n_idle = 0;
	sampler->last_ns = uv_hrtime();
	uv_timer_start(&sampler->timer, on_sample, SAMPLE_MS, SAMPLE_MS);
}

/* The session's place among background and other sessions on a GPU that it has opened. */
static void report_share(
	struct frame_counters *frame, const struct session *session, uint32_t ordinal, uint64_t now)
{
	const struct device *device = device_get(ordinal);
	enum session_class class = classes_class(session);

	if (class == CLASS_BACKGROUND)
		frame->share_sms[ordinal] =
			MIN(elastic_sms(device, now), session->grants[ordinal].n_sms);
	else if (class == CLASS_FOREGROUND)
		frame->slowdown[ordinal] = elastic_slowdown(device, session->id, now);
}

void counters_report_client(const struct client_conn *conn)
{
	struct session *session = conn->session;
	struct frame_counters frame = {.head = frame_head(FRAME_COUNTERS, 0), .client = conn->id};
	uint64_t granted = atomic_load(&session->granted), now = now_ns();
	const char *stays;

	for (unsigned i = 0; i < COUNTERS; i++)
		frame.counters[i] = counter_read(session, i);
	frame.counters[COUNTER_MOVES] = atomic_load(&session->eviction->n_moves);
	frame.counters[COUNTER_AWAY] = eviction_ns(session);
	frame.stay = atomic_load(&session->eviction->stay);
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		const struct device_quota *quota = atomic_load(&session->quotas[i]);

		if (granted >> i & 1)
			report_share(&frame, session, i, now);
		if (!quota)
			continue;
		frame.away[i] = atomic_load(&session->eviction->away[i]);
		frame.memory[i] = quota_used(&quota->quota);
		frame.memory_peak[i] = atomic_load_explicit(&quota->peak, memory_order_relaxed);
	}
	stays = atomic_load(&session->told_stays);
	snprintf(frame.restart, sizeof(frame.restart), "%s", stays ? stays : "");
	atomic_fetch_or(&session->memory_wanted, WANTED_STAYS);
	last_launch_copy(&session->last_launch, frame.kernel);
	daemon_link_send(&frame);
}

void counters_report(const struct client_conn *conns)
{
	struct frame_counters end = {.head = frame_head(FRAME_COUNTERS, 0)};

	for (const struct client_conn *conn = conns; conn; conn = conn->next)
		counters_report_client(conn);
	end.store_used = host_store_used();
	end.store_limit = host_store_limit();
	daemon_link_send(&end);
}
