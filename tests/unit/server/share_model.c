/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A GPU in simulated time. Invariant: a piece of work is noted only if the share was the same from
 * its begin to its end, as foreground sessions do.
 */

#include "share_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

/* Of one piece; and some of a hundred pieces take a third longer or more. */
#define NOISE 0.08
#define OUTLIERS 0.01
/* The pace comes back to its mean in so many seconds. */
#define DRIFT_S 3.0

static double uniform(void)
{
	return (rand() + 1.0) / (RAND_MAX + 2.0);
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

struct model_point model_point_of(const struct model_pair *pair, unsigned groups)
{
	const struct model_point *from = pair->points, *to;
	double part;

	while (from[1].groups > 0 && from[1].groups <= groups)
		from++;
	to = from + 1;
	if (to->groups == 0 || groups <= from->groups)
		return *from;
	part = (double)(groups - from->groups) / (to->groups - from->groups);
	return (struct model_point){
		.groups = groups,
		.slowdown = from->slowdown + part * (to->slowdown - from->slowdown),
		.speed = from->speed + part * (to->speed - from->speed),
	};
}

void model_init(struct model *model, unsigned floor_groups, struct model_noise noise)
{
	const struct share_bounds bounds = {
		.n_groups = MODEL_GROUPS, .floor_groups = floor_groups, .target = 50};

	memset(model, 0, sizeof(*model));
	share_controller_init(&model->controller, &bounds);
	model->noise = noise;
	model->now_ns = MODEL_S;
	model->is_background = true;
	model_measure(model);
}

/* The background's kernel goes on with the groups that it has; the next one has new groups. */
static void look_at_share(struct model *model)
{
	const struct model_pair *pair = model->foregrounds[0].pair;
	unsigned groups = share_controller_groups(&model->controller, model->now_ns);

	if (!model->is_background || model->groups == 0 ||
		(model->kernel_ns > 0 && model->now_ns >= model->kernel_ns)) {
		model->groups = model->is_background ? groups : 0;
		model->kernel_ns = 0;
	} else if (model->kernel_ns == 0 && model->groups != groups) {
		model->kernel_ns =
			model->now_ns + (uint64_t)(uniform() * pair->kernel_ms * MODEL_MS /
						   model_point_of(pair, model->groups).speed);
	}
}

static void piece_begin(struct model *model, struct model_foreground *own)
{
	double noise = own->pair->noise > 0 ? own->pair->noise : NOISE;
	double slowdown = 1;

	own->begin_ns = model->now_ns;
	if (own->pause_ms > 0 &&
		(double)(model->now_ns - own->resumed_ns) >= own->work_ms * MODEL_MS) {
		own->begin_ns += (uint64_t)(own->pause_ms * MODEL_MS);
		own->resumed_ns = own->begin_ns;
	}
	own->groups = model->groups;
	own->is_whole = true;
	own->alone_ns = own->pair->piece_ms * MODEL_MS * exp(model->pace + noise * normal());
	if (model->is_jump)
		own->alone_ns *= model->noise.jump;
	if (uniform() < OUTLIERS)
		own->alone_ns *= 1.3 + uniform();
	if (own->groups > 0)
		slowdown = model_point_of(own->pair, own->groups).slowdown;
	own->end_ns = own->begin_ns + (uint64_t)(own->alone_ns * slowdown);
}

static void piece_end(struct model *model, struct model_foreground *own)
{
	uint64_t work =
		own->first_work + (own->n_works > 0 ? own->n_pieces % own->n_works : own->n_pieces);

	if (own == model->foregrounds && model->n < MODEL_PIECES_MAX) {
		model->alone[model->n] = own->alone_ns;
		model->beside[model->n++] = (double)(own->end_ns - own->begin_ns);
	}
	own->n_pieces++;
	if (own->is_whole)
		share_controller_note(&model->controller, (uint32_t)(own - model->foregrounds) + 1,
			work, own->end_ns - own->begin_ns, own->groups, model->now_ns);
}

struct model_foreground *model_foreground(
	struct model *model, unsigned index, const struct model_pair *pair)
{
	struct model_foreground *own = &model->foregrounds[index];

	*own = (struct model_foreground){.pair = pair, .n_works = 1};
	if (!pair)
		return own;
	own->resumed_ns = model->now_ns;
	look_at_share(model);
	piece_begin(model, own);
	return own;
}

static struct model_foreground *next_to_end(struct model *model)
{
	struct model_foreground *next = NULL;

	for (unsigned i = 0; i < MODEL_FOREGROUNDS; i++) {
		struct model_foreground *own = &model->foregrounds[i];

		if (own->pair && (!next || own->end_ns < next->end_ns))
			next = own;
	}
	return next;
}

/* Drift and jumps in `ns'. */
static void change_pace(struct model *model, double ns)
{
	const struct model_noise *noise = &model->noise;
	double part = ns / MODEL_S / DRIFT_S;
	double state_s = model->is_jump ? noise->jump_s : noise->every_s;

	model->pace += -model->pace * part + noise->drift * sqrt(2 * part) * normal();
	if (noise->jump > 0 && uniform() > exp(-ns / MODEL_S / state_s))
		model->is_jump = !model->is_jump;
}

static void pass(struct model *model, uint64_t until_ns)
{
	const struct model_pair *pair = model->foregrounds[0].pair;
	double ns = (double)(until_ns - model->now_ns);
	unsigned good = model->controller.sizes[model->controller.good];
	unsigned groups = model->groups;

	change_pace(model, ns);
	model->now_ns = until_ns;
	if (groups == 0)
		return;
	model->speed += ns * model_point_of(pair, groups).speed;
	model->floor_ns += groups == model->controller.sizes[0] ? ns : 0;
	model->outside_ns += good < pair->least || good > pair->most ? ns : 0;
	model->n_sizes += good != model->good;
	model->good = good;
}

void model_run(struct model *model, double seconds)
{
	uint64_t end_ns = model->now_ns + (uint64_t)(seconds * MODEL_S);

	while (model->now_ns < end_ns) {
		struct model_foreground *own = next_to_end(model);

		pass(model, own->end_ns);
		piece_end(model, own);
		look_at_share(model);
		for (unsigned i = 0; i < MODEL_FOREGROUNDS; i++)
			model->foregrounds[i].is_whole &=
				model->foregrounds[i].groups == model->groups;
		piece_begin(model, own);
	}
}

void model_measure(struct model *model)
{
	model->since_ns = model->now_ns;
	model->speed = model->floor_ns = model->outside_ns = 0;
	model->n_tries = model->controller.n_tries;
	model->good = model->controller.sizes[model->controller.good];
	model->n = model->n_sizes = 0;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

struct model_figures model_figures(struct model *model)
{
	double took_ns = (double)(model->now_ns - model->since_ns);
	unsigned n = model->n;

	qsort(model->alone, n, sizeof(*model->alone), compare);
	qsort(model->beside, n, sizeof(*model->beside), compare);
	return (struct model_figures){
		.median = model->beside[n / 2] / model->alone[n / 2],
		.p99 = model->beside[n * 99 / 100] / model->alone[n * 99 / 100],
		.speed = model->speed / took_ns,
		.floor = model->floor_ns / took_ns,
		.outside = model->outside_ns / took_ns,
		.n_tries = model->controller.n_tries - model->n_tries,
		.n_sizes = model->n_sizes,
	};
}
