/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the background's share of a GPU. The caller's thread, under the caller's lock.
 *
 * Invariant: the present size is one of the sizes, whatever is noted.
 */

#include "share_controller.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

#define MS 1000000ull

/* An experiment without pieces ends. */
#define SILENT_NS (400 * MS)
/* Checks cost the background its speed, so there are few pairs of windows, and fewer later. */
#define FIRST_CHECK_PAIRS 8u
#define CHECK_PAIRS 4u
#define CHECK_INTERVAL_NS (4000 * MS)
#define CHECK_INTERVAL_MAX_NS (32000 * MS)
/* Tries cost little: sizes that disturb much are left within a window. */
#define TRY_PAIRS_LEAST 6u
#define TRY_PAIRS 24u
#define BACK_OFF_NS (1000 * MS)
#define BACK_OFF_MAX_NS (32000 * MS)
/* A size that is too large by so much is tried later: it is no mistake, and disturbs more. */
#define FAR 0.13f
#define FAR_BACK_OFF_NS (4000 * MS)
/* Checks take at most one in so many parts of the time, and tries that fail in so many. */
#define CHECK_PARTS 16u
#define TRY_PARTS 2u
/* A foreground that gets slower by so much, in so many windows, brings a check. */
#define ALARM 0.18f
#define ALARM_N 2u
#define LEVEL_PART 0.125f
/* Other work brings one, too, after this time, which doubles if the work changes all the time. */
#define WORK_NS (1000 * MS)
#define WORK_MAX_NS (64000 * MS)
/* Whatever brings checks, they do not follow faster: rarer after each one that changed nothing. */
#define CHECK_LEAST_NS (1000 * MS)
#define CHECK_LEAST_MAX_NS (4000 * MS)
/* After so long without background work, the next may be of another kind. */
#define ABSENT_NS (500 * MS)
/* What a foreground that works no more has felt counts no more. */
#define GONE_NS (1000 * MS)

/* Before it is known: the variance of a difference, which counts as so many differences. */
#define VARIANCE 0.0025f
#define VARIANCE_N 4u
/* The standard error of a median of N, from the median of the distances: so much / sqrt(N). */
#define SPREAD 1.85f
/* So few measurements tell nothing, unless a foreground takes LEAP times as long. */
#define CERTAIN_N 4u
#define LEAP_N 2u
#define ACCEPTED_N 3u
/* Standard errors that make a difference certain; and one with which a step leaves a size out. */
#define CERTAIN 2.0f
#define LEAP 1.4f
/*
 * A foreground is compared with itself beside background work on LOW_PER_CENT of the groups. The
 * floor costs the background nearly all its speed, so it has to spare a foreground so much more
 * than the target.
 */
#define WORTH_FLOOR 0.18f
/* A window is ended early if that many pieces are all so much slower. */
#define EARLY_N 3u
#define EARLY 0.2f

/* Of the groups; all SMs are the last size. */
static const unsigned char per_cent[SHARE_SIZES_MAX - 1] = {10, 30, 50, 70, 80, 90, 100};
#define FIRST_PER_CENT 80u
#define LOW_PER_CENT 30u

static unsigned groups_of(const struct share_bounds *bounds, unsigned part)
{
	return (unsigned)((uint64_t)bounds->n_groups * part / 100);
}

unsigned share_sizes(const struct share_bounds *bounds, unsigned sizes[SHARE_SIZES_MAX])
{
	unsigned n_groups = MAX(bounds->n_groups, 1u), n = 0;
	unsigned least = MIN(MAX(bounds->floor_groups, 1u), n_groups);

	for (unsigned i = 0; i < ARRAY_SIZE(per_cent); i++) {
		unsigned size = MIN(MAX(groups_of(bounds, per_cent[i]), least), n_groups);

		if (n == 0 || size > sizes[n - 1])
			sizes[n++] = size;
	}
	sizes[n++] = n_groups + 1;
	return n;
}

static void references_init(struct share_controller *controller)
{
	unsigned low = controller->sizes[1] <= groups_of(&controller->bounds, LOW_PER_CENT);

	controller->references[0] = (struct share_reference){
		low, share_pace(1.0f + (float)controller->bounds.target / 1000.0f)};
	controller->references[1] = (struct share_reference){0, WORTH_FLOOR};
	controller->n_references = 1 + low;
}

void share_controller_init(struct share_controller *controller, const struct share_bounds *bounds)
{
	unsigned first = groups_of(bounds, FIRST_PER_CENT);

	memset(controller, 0, sizeof(*controller));
	controller->bounds = *bounds;
	controller->n_sizes = share_sizes(bounds, controller->sizes);
	references_init(controller);
	while (controller->good + 2 < controller->n_sizes &&
		controller->sizes[controller->good + 1] <= first)
		controller->good++;
	controller->at = controller->good;
	controller->stride = 1;
	for (unsigned i = 0; i < SHARE_SIZES_MAX; i++)
		controller->back_off_ns[i] = BACK_OFF_NS;
	controller->check_interval_ns = CHECK_INTERVAL_NS;
	controller->check_least_ns = CHECK_LEAST_NS;
	controller->work_interval_ns = WORK_NS;
}

/* ---- differences */

static unsigned difference_count(const struct share_difference *difference)
{
	return MIN(difference->n, SHARE_DIFFERENCES_MAX);
}

static void difference_add(struct share_difference *difference, float value)
{
	difference->values[difference->n++ % SHARE_DIFFERENCES_MAX] = value;
	if (difference->n == 2 * SHARE_DIFFERENCES_MAX)
		difference->n = SHARE_DIFFERENCES_MAX;
}

/* Keeps the last `n' measurements, plus `value'. */
static void difference_shift(struct share_difference *difference, float value, unsigned n)
{
	struct share_difference kept = {.n = 0};

	for (unsigned i = MIN(n, difference_count(difference)); i > 0; i--)
		difference_add(&kept,
			difference->values[(difference->n - i) % SHARE_DIFFERENCES_MAX] + value);
	*difference = kept;
}

static int compare(const void *left, const void *right)
{
	float a = *(const float *)left, b = *(const float *)right;

	return (a > b) - (a < b);
}

/*
 * The median, and the square of its standard error: the paces of a machine jump, and a jump
 * between two windows is no difference of shares.
 */
static float difference_median(const struct share_difference *difference, float *ret_error)
{
	float values[SHARE_DIFFERENCES_MAX], median;
	unsigned n = difference_count(difference);

	*ret_error = 0;
	if (n == 0)
		return 0;
	memcpy(values, difference->values, n * sizeof(*values));
	qsort(values, n, sizeof(*values), compare);
	median = (values[(n - 1) / 2] + values[n / 2]) / 2;
	for (unsigned i = 0; i < n; i++)
		values[i] = fabsf(values[i] - median);
	qsort(values, n, sizeof(*values), compare);
	*ret_error = SPREAD * values[n / 2];
	*ret_error = (*ret_error * *ret_error * (float)n + VARIANCE * VARIANCE_N) /
		     (float)((n + VARIANCE_N) * n);
	return median;
}

/* Whether the foreground still works: what it felt counts no more if it does not. */
static bool is_there(const struct share_controller *controller, unsigned index)
{
	uint64_t noted_ns = controller->window.foregrounds[index].noted_ns;

	return noted_ns > 0 && controller->now_ns - noted_ns < GONE_NS;
}

static bool is_certain(float distance, float error, float how)
{
	return distance > 0 && distance * distance > how * how * error;
}

/* The excess over what is accepted, of the foreground that feels the most. */
struct verdict {
	float mean;
	bool is_known, is_too_large, is_far; /* for at least one */
	bool is_fine;                        /* for all that are known, probably */
};

static void verdict_add(struct verdict *verdict, float mean, float error, unsigned n)
{
	bool is_far = n >= LEAP_N && mean > share_pace(LEAP) && is_certain(mean, error, CERTAIN);

	verdict->mean = verdict->is_known ? MAX(verdict->mean, mean) : mean;
	verdict->is_fine =
		(verdict->is_fine || !verdict->is_known) && is_certain(-mean, error, CERTAIN);
	verdict->is_known = true;
	verdict->is_far |= is_far;
	verdict->is_too_large |= is_far || (n >= CERTAIN_N && is_certain(mean, error, CERTAIN));
}

/* The present size, beside one reference. */
static struct verdict check_verdict(const struct share_controller *controller, unsigned reference)
{
	struct verdict verdict = {.is_known = false};

	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		const struct share_difference *check = &controller->feelings[i].checks[reference];
		float error, mean = difference_median(check, &error);

		if (is_there(controller, i) && check->n > 0)
			verdict_add(&verdict, mean - controller->references[reference].most, error,
				check->n);
	}
	return verdict;
}

static void try_add(struct verdict *verdict, const struct share_controller *controller,
	const struct share_feeling *feeling)
{
	float error, change = difference_median(&feeling->try, &error);

	for (unsigned r = 0; r < controller->n_references; r++) {
		const struct share_reference *reference = &controller->references[r];
		float check_error, mean = difference_median(&feeling->checks[r], &check_error);

		/* Being faster than beside a reference is no licence to slow it down. */
		if (controller->good >= reference->size)
			verdict_add(verdict, MAX(mean, 0) + change - reference->most,
				error + check_error, feeling->try.n);
	}
}

/* The size that is tried, beside all references. */
static struct verdict try_verdict(const struct share_controller *controller)
{
	struct verdict verdict = {.is_known = false};

	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++)
		if (is_there(controller, i) && controller->feelings[i].try.n > 0)
			try_add(&verdict, controller, &controller->feelings[i]);
	return verdict;
}

/* ---- changes of size */

static void go(struct share_controller *controller, unsigned at)
{
	controller->at = at;
	controller->noted_ns = controller->now_ns;
	share_window_begin(&controller->window);
}

static void forget_checks(struct share_controller *controller)
{
	controller->checks_done = 0;
	controller->check_interval_ns = CHECK_INTERVAL_NS;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		struct share_feeling *feeling = &controller->feelings[i];

		for (unsigned r = 0; r < SHARE_REFERENCES_MAX; r++)
			feeling->checks[r] = (struct share_difference){.n = 0};
		feeling->n_high = 0;
	}
}

static bool is_check_due(const struct share_controller *controller)
{
	return controller->good > 0 && controller->now_ns >= controller->check_ns;
}

/* A size has to be larger than its reference. */
static void choose_reference(struct share_controller *controller)
{
	if (controller->good <= controller->references[controller->reference].size)
		controller->reference = controller->n_references - 1;
}

static void check_soon(struct share_controller *controller)
{
	controller->check_ns =
		MIN(controller->check_ns, controller->checked_ns + controller->check_least_ns);
}

/* The present size becomes another one. */
static void settle(struct share_controller *controller, unsigned good, uint64_t check_ns)
{
	controller->check_ns = MIN(controller->check_ns, controller->now_ns + check_ns);
	controller->check_interval_ns = CHECK_INTERVAL_NS;
	controller->check_least_ns = CHECK_LEAST_NS;
	controller->checks_done = 0;
	controller->good = good;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++)
		controller->feelings[i].has_before = false;
}

static void experiment_end(struct share_controller *controller)
{
	controller->phase = SHARE_STAYS;
	go(controller, controller->good);
}

static void experiment_begin(
	struct share_controller *controller, enum share_phase phase, unsigned at)
{
	controller->phase = phase;
	controller->other = at;
	controller->n_pairs = controller->n_windows = 0;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		controller->feelings[i].has_other = false;
		if (phase == SHARE_TRIES)
			controller->feelings[i].try = (struct share_difference){.n = 0};
	}
	if (phase == SHARE_TRIES)
		controller->n_tries++;
	else
		controller->n_checks++;
	controller->began_ns = controller->now_ns;
	if (phase == SHARE_CHECKS)
		controller->checked_ns = controller->now_ns;
	go(controller, at);
}

/* The experiment's time so far: much if the pieces are long. */
static uint64_t took_ns(const struct share_controller *controller)
{
	return controller->now_ns - controller->began_ns;
}

/* The size is too large, by that pace. */
static void refuse(struct share_controller *controller, unsigned at, float excess)
{
	if (excess > FAR)
		controller->back_off_ns[at] = MAX(controller->back_off_ns[at], FAR_BACK_OFF_NS);
	controller->n_too_large++;
	controller->retry_ns[at] = controller->now_ns + MAX(controller->back_off_ns[at],
								took_ns(controller) * TRY_PARTS);
	controller->stride = 1;
	controller->back_off_ns[at] = MIN(2 * controller->back_off_ns[at], BACK_OFF_MAX_NS);
}

/* ---- checks */

static void go_down(struct share_controller *controller, const struct verdict *verdict)
{
	unsigned least = controller->references[controller->reference].size;
	unsigned step = verdict->is_far ? 2 : 1;

	refuse(controller, controller->good, verdict->mean);
	settle(controller, controller->good - MIN(step, controller->good - least), 0);
	forget_checks(controller);
	experiment_end(controller);
}

static void check_conclude(struct share_controller *controller)
{
	struct verdict verdict = check_verdict(controller, controller->reference);
	unsigned most = controller->checks_done > 0 ? CHECK_PAIRS : FIRST_CHECK_PAIRS;
	bool is_last = controller->n_pairs >= most || controller->n_windows >= 2 * most;

	if (verdict.is_too_large) {
		go_down(controller, &verdict);
		return;
	}
	if (!is_last && !(verdict.is_fine && controller->n_pairs >= CHECK_PAIRS))
		return;
	experiment_end(controller);
	if (!verdict.is_known) {
		controller->check_ns = controller->now_ns + CHECK_LEAST_NS;
		return;
	}
	controller->checks_done++;
	controller->check_ns = controller->now_ns + MAX(controller->check_interval_ns,
							    took_ns(controller) * CHECK_PARTS);
	controller->check_least_ns = MIN(2 * controller->check_least_ns, CHECK_LEAST_MAX_NS);
	controller->reference = (controller->reference + 1) % controller->n_references;
	if (!check_verdict(controller, controller->reference).is_known)
		check_soon(controller);
	/* What is not certain yet becomes so by further checks. */
	if (verdict.mean < 0)
		controller->check_interval_ns =
			MIN(2 * controller->check_interval_ns, CHECK_INTERVAL_MAX_NS);
}

/* ---- tries */

/* The size that was tried is the present one now. */
static void accept(struct share_controller *controller)
{
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		struct share_feeling *feeling = &controller->feelings[i];
		float error, change = difference_median(&feeling->try, &error);

		/* The try that was accepted was more likely too low than too high. */
		for (unsigned r = 0; r < SHARE_REFERENCES_MAX; r++)
			difference_shift(
				&feeling->checks[r], change, MIN(feeling->try.n, ACCEPTED_N));
		feeling->level += change;
	}
	settle(controller, controller->other, CHECK_LEAST_NS);
	controller->reference = 0;
	controller->stride = 2;
	experiment_end(controller);
}

static void try_conclude(struct share_controller *controller)
{
	struct verdict verdict = try_verdict(controller);
	bool is_last = controller->n_pairs >= TRY_PAIRS || controller->n_windows >= 2 * TRY_PAIRS;

	if (verdict.is_too_large || (is_last && verdict.is_known && verdict.mean > 0)) {
		refuse(controller, controller->other, verdict.mean);
		experiment_end(controller);
	} else if ((is_last && verdict.is_known) ||
		   (verdict.is_fine && controller->n_pairs >= TRY_PAIRS_LEAST)) {
		accept(controller);
	} else if (is_last) {
		experiment_end(controller);
	}
}

/* Whether a few pieces show that the window need not last longer. */
static bool is_early_end(const struct share_controller *controller, unsigned index)
{
	const struct share_foreground *one = &controller->window.foregrounds[index];
	const struct share_feeling *feeling = &controller->feelings[index];

	return controller->phase == SHARE_TRIES && controller->at != controller->good &&
	       feeling->has_before && one->n >= EARLY_N && one->least - feeling->before > EARLY;
}

/* ---- what happens after a window of the present size */

/* The pace of a foreground in such a window. */
static void feel(struct share_controller *controller, struct share_feeling *feeling, float pace)
{
	bool is_high = feeling->has_before && pace - feeling->level > ALARM;

	feeling->level =
		feeling->has_before ? feeling->level + LEVEL_PART * (pace - feeling->level) : pace;
	feeling->n_high = is_high ? feeling->n_high + 1 : 0;
	if (feeling->n_high < ALARM_N)
		return;
	feeling->level = pace;
	forget_checks(controller);
	check_soon(controller);
}

/* Uses a window of the present size; returns whether an experiment has a new difference. */
static bool window_use(struct share_controller *controller)
{
	bool is_used = false;

	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		struct share_feeling *feeling = &controller->feelings[i];
		bool is_known;
		float pace, difference;

		is_known = share_window_pace(&controller->window, i, &pace);
		if (is_known && feeling->has_before && feeling->has_other) {
			difference = feeling->other - (feeling->before + pace) / 2;
			if (controller->phase == SHARE_CHECKS)
				difference_add(
					&feeling->checks[controller->reference], -difference);
			else
				difference_add(&feeling->try, difference);
			is_used = true;
		}
		if (is_known)
			feel(controller, feeling, pace);
		feeling->has_other = false;
		feeling->has_before = is_known;
		feeling->before = is_known ? pace : 0;
	}
	return is_used;
}

/* Whatever was known of sizes may be wrong. */
static void forget_sizes(struct share_controller *controller)
{
	controller->check_least_ns = CHECK_LEAST_NS;
	controller->stride = 2;
	controller->reference = 0;
	forget_checks(controller);
	check_soon(controller);
	for (unsigned i = 0; i < SHARE_SIZES_MAX; i++) {
		controller->retry_ns[i] = 0;
		controller->back_off_ns[i] = BACK_OFF_NS;
	}
}

static void look_for_new_work(struct share_controller *controller)
{
	uint64_t passed_ns = controller->now_ns - controller->work_ns;

	if (passed_ns < controller->work_interval_ns ||
		!share_window_is_new_work(&controller->window, controller->work_ns))
		return;
	controller->work_interval_ns = passed_ns < 4 * controller->work_interval_ns
					       ? MIN(2 * controller->work_interval_ns, WORK_MAX_NS)
					       : WORK_NS;
	controller->work_ns = controller->now_ns;
	forget_sizes(controller);
}

/* The larger size to try now; the present one: none. */
static unsigned next_size(const struct share_controller *controller)
{
	for (unsigned stride = controller->stride; stride > 0; stride--) {
		unsigned next = controller->good + stride;

		if (next < controller->n_sizes && controller->now_ns >= controller->retry_ns[next])
			return next;
	}
	return controller->good;
}

/* Whether the size that was checked last leaves a larger one a chance. */
static bool may_grow(const struct share_controller *controller)
{
	for (unsigned r = 0; r < controller->n_references; r++) {
		struct verdict verdict = check_verdict(controller, r);

		if (verdict.is_known && verdict.mean > 0)
			return false;
	}
	return true;
}

static void experiment_choose(struct share_controller *controller)
{
	unsigned next = next_size(controller);

	look_for_new_work(controller);
	choose_reference(controller);
	if (is_check_due(controller))
		experiment_begin(controller, SHARE_CHECKS,
			controller->references[controller->reference].size);
	else if (next > controller->good && may_grow(controller))
		experiment_begin(controller, SHARE_TRIES, next);
	else
		share_window_begin(&controller->window);
}

static void window_end(struct share_controller *controller)
{
	controller->n_windows++;
	if (controller->at != controller->good) {
		for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
			struct share_feeling *feeling = &controller->feelings[i];

			feeling->has_other =
				share_window_pace(&controller->window, i, &feeling->other);
		}
		go(controller, controller->good);
		return;
	}
	controller->n_pairs += window_use(controller);
	if (controller->phase == SHARE_CHECKS)
		check_conclude(controller);
	else if (controller->phase == SHARE_TRIES && is_check_due(controller))
		experiment_end(controller);
	else if (controller->phase == SHARE_TRIES)
		try_conclude(controller);
	if (controller->phase == SHARE_STAYS)
		experiment_choose(controller);
	else
		go(controller, controller->other);
}

/* ---- what others see */

/* Notes whether background work was there; its kind may be another one after an absence. */
static void look_at_background(struct share_controller *controller, bool is_there)
{
	if (!is_there && controller->absent_ns == 0) {
		controller->absent_ns = MAX(controller->now_ns, 1u);
	} else if (is_there && controller->absent_ns > 0) {
		if (controller->now_ns - controller->absent_ns >= ABSENT_NS)
			forget_sizes(controller);
		controller->absent_ns = 0;
	}
}

void share_controller_note(struct share_controller *controller, uint32_t foreground, uint64_t work,
	uint64_t ns, unsigned groups, uint64_t now)
{
	bool is_in = groups == controller->sizes[controller->at], is_new;
	unsigned index;

	controller->now_ns = MAX(controller->now_ns, now);
	if (ns == 0)
		return;
	look_at_background(controller, groups > 0);
	index = share_window_note(&controller->window, foreground, work, (float)ns, is_in,
		controller->now_ns, &is_new);
	if (is_new) {
		controller->feelings[index] = (struct share_feeling){.has_before = false};
		check_soon(controller);
	}
	if (!is_in)
		return;
	controller->noted_ns = controller->now_ns;
	if (is_early_end(controller, index) ||
		share_window_is_over(&controller->window, controller->now_ns))
		window_end(controller);
}

unsigned share_controller_groups(struct share_controller *controller, uint64_t now)
{
	controller->now_ns = MAX(controller->now_ns, now);
	if (controller->phase != SHARE_STAYS &&
		controller->now_ns - controller->noted_ns >= SILENT_NS)
		experiment_end(controller);
	return controller->sizes[controller->at];
}

/* How long ago that was; 0 if another thread has read the clock later. */
static uint64_t since(uint64_t then, uint64_t now)
{
	return now - MIN(then, now);
}

unsigned share_controller_slowdown(
	const struct share_controller *controller, uint32_t foreground, uint64_t now)
{
	float error, slowdown = 0;

	if (controller->absent_ns > 0 && since(controller->absent_ns, now) >= ABSENT_NS)
		return 0;
	for (unsigned i = 0; i < SHARE_FOREGROUNDS_MAX; i++) {
		const struct share_foreground *one = &controller->window.foregrounds[i];

		if (one->noted_ns == 0 || one->id != foreground ||
			since(one->noted_ns, now) >= GONE_NS)
			continue;
		for (unsigned r = 0; r < controller->n_references; r++) {
			const struct share_difference *check = &controller->feelings[i].checks[r];

			if (check->n > 0)
				slowdown = share_ratio(difference_median(check, &error));
		}
	}
	return (unsigned)(slowdown * 1000 + 0.5f);
}
