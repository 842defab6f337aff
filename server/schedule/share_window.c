/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The paces of foregrounds. The caller's thread.
 *
 * Invariant: each known piece of work belongs to one foreground, and usual times are above 0.
 */

#include "share_window.h"

#include "base.h"

#define MS 1000000ull

/* The usual time is a mean of the first pieces, and follows later ones in this time. */
#define FIRST_N 64u
#define MEMORY_NS 1e9f
#define KNOWN_N 4u
/* A piece changes the usual time at most as if it took twice or half of it. */
#define OUTLIER 2.0f
/* So many outliers in turn among the first pieces are none: an earlier piece was. */
#define OUTLIERS 4u

#define DECAY_NS (250 * MS)
#define DECAY 0.7f
#define DECAYS_MAX 64u

/* A window is long enough for the noise of a piece to count little, but short against drift. */
#define WINDOW_NS (15 * MS)
#define WINDOW_N 8u
/* It waits so long for slower foregrounds, and for longer pieces. */
#define LONG_WINDOW_NS (120 * MS)
#define LONG_WINDOW_N 4u
/* Without pieces for so long, a foreground pauses. */
#define PAUSE_NS (250 * MS)
#define PACE_N 2u

static void usual_note(struct share_usual *usual, float ns)
{
	bool is_outlier = ns > usual->ns * OUTLIER || ns * OUTLIER < usual->ns;
	float part;

	usual->n_outliers = usual->n > 0 && is_outlier ? usual->n_outliers + 1 : 0;
	if (usual->n == 0 || (usual->n < FIRST_N && usual->n_outliers == OUTLIERS))
		*usual = (struct share_usual){.ns = ns};
	ns = MIN(MAX(ns, usual->ns / OUTLIER), usual->ns * OUTLIER);
	usual->n = MIN(usual->n + 1, FIRST_N);
	part = usual->n < FIRST_N ? 1.0f / (float)usual->n : MIN(ns / MEMORY_NS, 1.0f / FIRST_N);
	usual->ns += (ns - usual->ns) * part;
}

static void decay(struct share_window *window, uint64_t now)
{
	uint64_t n = (now - window->decayed_ns) / DECAY_NS;
	float factor = 1.0f;

	if (n == 0)
		return;
	for (uint64_t i = 0; i < MIN(n, DECAYS_MAX); i++)
		factor *= DECAY;
	for (unsigned i = 0; i < SHARE_WORKS_MAX; i++)
		window->works[i].busy_ns *= factor;
	window->decayed_ns = now;
}

static bool is_work(const struct share_work *one, uint32_t foreground, uint64_t work)
{
	return one->born_ns > 0 && one->work == work && one->foreground == foreground;
}

/* Finds the work, or takes the place of the one that took the least time lately. */
static struct share_work *work_get(
	struct share_window *window, uint32_t foreground, uint64_t work, uint64_t now)
{
	struct share_work *least = &window->works[window->last];

	if (is_work(least, foreground, work))
		return least;
	for (unsigned i = 0; i < SHARE_WORKS_MAX; i++) {
		struct share_work *one = &window->works[i];

		if (is_work(one, foreground, work)) {
			window->last = i;
			return one;
		}
		if (one->busy_ns < least->busy_ns || (one->born_ns == 0 && least->born_ns > 0))
			least = one;
	}
	window->last = (unsigned)(least - window->works);
	*least = (struct share_work){
		.work = work, .foreground = foreground, .born_ns = MAX(now, 1u)};
	return least;
}

static unsigned foreground_get(struct share_window *window, uint32_t id, bool *ret_is_new)
{
	unsigned oldest = 0;

	*ret_is_new = false;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		if (window->foregrounds[i].noted_ns > 0 && window->foregrounds[i].id == id)
			return i;
		if (window->foregrounds[i].noted_ns < window->foregrounds[oldest].noted_ns)
			oldest = i;
	}
	window->foregrounds[oldest] = (struct share_foreground){.id = id};
	*ret_is_new = true;
	return oldest;
}

void share_window_begin(struct share_window *window)
{
	window->began_ns = 0;
	window->n = 0;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		struct share_foreground *one = &window->foregrounds[i];

		one->weight_ns = one->sum = 0;
		one->n = 0;
	}
}

unsigned share_window_note(struct share_window *window, uint32_t foreground, uint64_t work,
	float ns, bool is_in, uint64_t now, bool *ret_is_new)
{
	unsigned index = foreground_get(window, foreground, ret_is_new);
	struct share_foreground *own = &window->foregrounds[index];
	struct share_work *known = (decay(window, now), work_get(window, foreground, work, now));
	struct share_usual *usual = known->usual.n >= KNOWN_N ? &known->usual : &own->others;
	float pace = usual->n > 0 ? share_pace(ns / usual->ns) : 0;

	own->noted_ns = MAX(now, 1u);
	known->busy_ns += ns;
	if (is_in && usual->n >= KNOWN_N) {
		own->weight_ns += usual->ns;
		own->sum += usual->ns * pace;
		own->least = own->n > 0 ? MIN(own->least, pace) : pace;
		own->n++;
		window->n++;
		if (window->began_ns == 0)
			window->began_ns = MAX(now, 1u);
	}
	if (usual == &own->others)
		usual_note(&own->others, ns);
	usual_note(&known->usual, ns);
	return index;
}

bool share_window_is_over(const struct share_window *window, uint64_t now)
{
	uint64_t took_ns = now - window->began_ns;

	if (window->n >= LONG_WINDOW_N && took_ns >= LONG_WINDOW_NS)
		return true;
	if (window->n < WINDOW_N || took_ns < WINDOW_NS)
		return false;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		const struct share_foreground *one = &window->foregrounds[i];

		if (one->noted_ns > 0 && now - one->noted_ns < PAUSE_NS && one->n < PACE_N)
			return false;
	}
	return true;
}

bool share_window_pace(const struct share_window *window, unsigned index, float *ret_pace)
{
	const struct share_foreground *one = &window->foregrounds[index];

	if (one->n < PACE_N)
		return false;
	*ret_pace = one->sum / one->weight_ns;
	return true;
}

bool share_window_is_new_work(const struct share_window *window, uint64_t since_ns)
{
	float all = 0, new = 0;

	for (unsigned i = 0; i < SHARE_WORKS_MAX; i++) {
		all += window->works[i].busy_ns;
		if (window->works[i].born_ns > since_ns)
			new += window->works[i].busy_ns;
	}
	return new * 2 > all;
}
