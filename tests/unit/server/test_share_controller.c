/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The share controller beside a model of a GPU: at which size it arrives, what the foregrounds
 * feel meanwhile, and what the background loses.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base.h"
#include "share_model.h"
#include "server/schedule/share_controller.h"
#include "tests/unit/seed.h"

/*
 * Foreground and background: the first six as measured on an H100 (docs/lab/shares.md), the others
 * as a test needs them. The times of tiny kernels have more noise.
 */
static const struct model_pair pairs[] = {
	{"ResNet-18, products of 4096", 1.9, 0.25,
		{{2, 1.0, 0.15}, {7, 1.0, 0.65}, {10, 0.99, 0.77}, {12, 1.02, 0.84},
			{13, 1.22, 0.83}, {16, 2.85, 1}},
		12, 12, 0},
	{"ResNet-18, products of 8192", 1.9, 2.2,
		{{2, 1.0, 0.15}, {10, 1.02, 0.78}, {12, 0.99, 0.86}, {13, 1.09, 0.89},
			{16, 8.7, 1}},
		10, 12, 0},
	{"ResNet-18, training of a transformer", 1.9, 0.5,
		{{2, 1.0, 0.2}, {12, 0.98, 0.9}, {13, 0.95, 1}, {15, 1.4, 1}, {16, 2.2, 1}}, 12, 13,
		0},
	{"ResNet-18, training of ResNet-50", 1.9, 0.3,
		{{2, 1.0, 0.2}, {13, 1.01, 0.95}, {15, 1.08, 0.98}, {16, 1.1, 1}}, 12, 15, 0},
	{"ResNet-18, element-wise work", 1.9, 0.7,
		{{2, 0.97, 0.46}, {4, 0.99, 0.87}, {7, 2.7, 0.95}, {10, 3.3, 1}, {13, 1.92, 1},
			{16, 3.5, 1}},
		4, 4, 0},
	{"a token, products of 8192", 1.0, 2.2,
		{{2, 1.0, 0.15}, {10, 1.0, 0.78}, {12, 1.03, 0.86}, {13, 1.6, 0.94}, {16, 6, 1}},
		10, 12, 0},
	{"a step of MPI, work that disturbs nobody", 0.4, 0.1, {{2, 1.0, 0.15}, {16, 1.0, 1}}, 13,
		16, 0},
	{"work that a step at 30 % disturbs", 1.0, 0.3,
		{{2, 1.0, 0.15}, {4, 1.0, 0.5}, {5, 1.6, 0.55}, {16, 1.7, 1}}, 4, 4, 0},
	{"an encoder, prefill", 2.5, 1.3,
		{{2, 1.0, 0.14}, {10, 1.03, 0.7}, {12, 1.04, 0.82}, {13, 1.1, 0.88}, {16, 1.6, 1}},
		10, 13, 0},
	/* Nothing helps, or the floor does a little: the background gives up nothing. */
	{"a slow foreground", 1.9, 0.1, {{2, 1.5, 0.15}, {16, 1.5, 1}}, 13, 16, 0},
	{"empty kernels that nothing helps", 0.05, 0.25, {{2, 1.27, 0.15}, {16, 1.3, 1}}, 12, 16,
		0.25},
	{"empty kernels that the floor helps", 0.05, 0.25,
		{{2, 1.15, 0.15}, {4, 1.28, 0.4}, {16, 1.32, 1}}, 12, 16, 0.25},
	{"a step of MPI that the floor helps", 0.1, 0.25,
		{{2, 1.02, 0.15}, {4, 1.09, 0.4}, {16, 1.11, 1}}, 12, 16, 0.15},
};
enum {
	PRODUCTS,
	ELEMENTWISE = 4,
	TOKEN,
	NO_DISTURBANCE
};

/* Jumps as on a virtual machine, whose processors other machines use, too. */
static const struct model_noise quiet = {0}, drifts = {.drift = 0.15},
				jumps = {.drift = 0.15, .jump = 1.5, .jump_s = 0.2, .every_s = 0.6},
				short_jumps = {
					.drift = 0.15, .jump = 1.5, .jump_s = 0.03, .every_s = 0.1};

static struct model model;

static void test_sizes(_unused_ void **state)
{
	static const struct {
		struct share_bounds bounds;
		unsigned n, sizes[SHARE_SIZES_MAX];
	} cases[] = {
		{{15, 1, 50}, 8, {1, 4, 7, 10, 12, 13, 15, 16}},
		{{15, 2, 50}, 8, {2, 4, 7, 10, 12, 13, 15, 16}},
		{{15, 9, 50}, 6, {9, 10, 12, 13, 15, 16}},
		{{15, 15, 50}, 2, {15, 16}},
		{{15, 99, 50}, 2, {15, 16}},
		{{4, 1, 50}, 5, {1, 2, 3, 4, 5}},
		{{1, 0, 50}, 2, {1, 2}},
		{{0, 0, 0}, 2, {1, 2}},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned sizes[SHARE_SIZES_MAX], n = share_sizes(&cases[i].bounds, sizes);

		assert_int_equal(n, cases[i].n);
		assert_memory_equal(sizes, cases[i].sizes, n * sizeof(*sizes));
	}
}

/* The best speed of the background at a size that the controller should choose. */
static double best_speed(const struct model_pair *pair)
{
	unsigned sizes[SHARE_SIZES_MAX], n = share_sizes(&model.controller.bounds, sizes);
	double best = 0;

	for (unsigned i = 0; i < n; i++)
		if (sizes[i] >= pair->least && sizes[i] <= pair->most)
			best = MAX(best, model_point_of(pair, sizes[i]).speed);
	return best;
}

static void show(const char *name, const struct model_figures *figures)
{
	printf("    %-42s %2u groups: median %.3f, p99 %.3f, speed %.3f; floor %.3f, outside %.3f, "
	       "%u tries, %u changes\n",
		name, model.good, figures->median, figures->p99, figures->speed, figures->floor,
		figures->outside, figures->n_tries, figures->n_sizes);
}

/* The foreground's slowdown at the best size, beside its time alone. */
static double best_slowdown(const struct model_pair *pair)
{
	return MAX(MAX(model_point_of(pair, pair->least).slowdown,
			   model_point_of(pair, pair->most).slowdown),
		1);
}

/* A minute of a pair, after the first seconds. `part' of the best speed is left. */
static void check_pair(const struct model_pair *pair, struct model_noise noise, double part)
{
	struct model_figures figures;

	model_init(&model, 2, noise);
	model_foreground(&model, 0, pair);
	model_run(&model, 3);
	model_measure(&model);
	model_run(&model, pair->piece_ms < 0.1 ? 20 : 60);
	figures = model_figures(&model);
	show(pair->name, &figures);
	assert_true(figures.median <= 1.06 * best_slowdown(pair));
	assert_true(figures.p99 <= 1.10 * best_slowdown(pair));
	assert_true(figures.speed >= part * best_speed(pair));
	assert_true(figures.floor <= 0.05);
	assert_true(figures.n_tries <= 30);
	assert_true(figures.n_sizes <= 20);
}

static void test_pairs(_unused_ void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(pairs); i++) {
		check_pair(&pairs[i], quiet, 0.9);
		check_pair(&pairs[i], drifts, 0.9);
		check_pair(&pairs[i], jumps, 0.8);
		check_pair(&pairs[i], short_jumps, 0.7);
	}
}

/* All pairs, as the bench measures them: after a second, for three seconds. */
static void test_mean_of_pairs(_unused_ void **state)
{
	const struct model_noise *noises[] = {&quiet, &drifts, &jumps, &short_jumps};

	for (unsigned k = 0; k < ARRAY_SIZE(noises); k++) {
		double part = 0;
		unsigned n = ARRAY_SIZE(pairs);

		for (unsigned i = 0; i < n; i++) {
			model_init(&model, 2, *noises[k]);
			model_foreground(&model, 0, &pairs[i]);
			model_run(&model, 1);
			model_measure(&model);
			model_run(&model, 3);
			part += MIN(model_figures(&model).speed / best_speed(&pairs[i]), 1);
		}
		part /= n;
		printf("    %.3f of the best speeds\n", part);
		assert_true(part >= 0.85);
	}
}

static void check_arrives(const char *name, double seconds, unsigned least, unsigned most)
{
	struct model_figures figures;

	model_measure(&model);
	model_run(&model, seconds);
	figures = model_figures(&model);
	show(name, &figures);
	assert_in_range(model.good, least, most);
}

/* The foreground does other work, which bears another share. */
static void test_other_work(_unused_ void **state)
{
	struct model_foreground *own;

	model_init(&model, 2, drifts);
	model_foreground(&model, 0, &pairs[ELEMENTWISE]);
	check_arrives("work that bears 4 groups", 3, 4, 4);
	own = model_foreground(&model, 0, &pairs[NO_DISTURBANCE]);
	own->first_work = 100;
	check_arrives("other work that bears all", 3, 15, 16);
	own = model_foreground(&model, 0, &pairs[ELEMENTWISE]);
	own->first_work = 200;
	check_arrives("other work that bears 4 again", 3, 4, 4);
}

/* The background does other work: at once, or after a time without any. */
static void test_other_background(_unused_ void **state)
{
	model_init(&model, 2, drifts);
	model_foreground(&model, 0, &pairs[PRODUCTS]);
	check_arrives("products", 10, 12, 12);
	model.foregrounds[0].pair = &pairs[ELEMENTWISE];
	check_arrives("then element-wise work", 5, 4, 4);
	model.is_background = false;
	model_run(&model, 1);
	model.is_background = true;
	model.foregrounds[0].pair = &pairs[PRODUCTS];
	check_arrives("products after a second without any", 3, 10, 12);
	model.foregrounds[0].pair = &pairs[NO_DISTURBANCE];
	check_arrives("work that disturbs nobody, at once", 40, 15, 16);
}

/* The worst foreground counts, and only while it works. */
static void test_several_foregrounds(_unused_ void **state)
{
	model_init(&model, 2, drifts);
	model_foreground(&model, 0, &pairs[NO_DISTURBANCE]);
	model_foreground(&model, 1, &pairs[ELEMENTWISE]);
	model_foreground(&model, 2, &pairs[NO_DISTURBANCE]);
	check_arrives("one of three bears 4 groups", 4, 4, 4);
	model_foreground(&model, 1, NULL);
	check_arrives("without it", 40, 15, 16);
}

/* It works for 20 ms in 200 ms, a window of pieces each. */
static void test_pauses(_unused_ void **state)
{
	struct model_foreground *own;

	model_init(&model, 2, drifts);
	own = model_foreground(&model, 0, &pairs[PRODUCTS]);
	own->work_ms = 20;
	own->pause_ms = 180;
	check_arrives("a foreground that pauses", 30, 10, 12);
	own->pair = &pairs[ELEMENTWISE];
	check_arrives("... beside element-wise work", 30, 4, 4);
}

/* Thousands in a window: the usual time must not follow a window. */
static void test_short_pieces(_unused_ void **state)
{
	struct model_pair pair = pairs[ELEMENTWISE];

	pair.piece_ms = 0.01;
	model_init(&model, 2, drifts);
	model_foreground(&model, 0, &pair);
	check_arrives("empty kernels, element-wise work", 2, 4, 4);
}

/* More kinds of pieces than are remembered; or none repeats. */
static void test_many_works(_unused_ void **state)
{
	static const uint64_t n_works[] = {40, 300, 0};

	for (unsigned i = 0; i < ARRAY_SIZE(n_works); i++) {
		struct model_figures figures;

		model_init(&model, 2, drifts);
		model_foreground(&model, 0, &pairs[TOKEN])->n_works = n_works[i];
		model_run(&model, 2);
		model_measure(&model);
		model_run(&model, 60);
		figures = model_figures(&model);
		show("works that hardly repeat", &figures);
		assert_true(figures.median <= 1.05);
		assert_true(figures.p99 <= 1.10);
		assert_true(figures.floor <= 0.06);
		assert_true(figures.speed >= 0.75);
	}
}

static const struct model_pair bears_least = {
	"each SM disturbs", 1.9, 0.1, {{2, 1.1, 0.15}, {16, 4.0, 1}}, 7, 7, 0};

/* What a client felt is known while it works, and while there is background work. */
static void test_slowdown(_unused_ void **state)
{
	const struct share_controller *controller = &model.controller;

	model_init(&model, 2, quiet);
	model_foreground(&model, 0, &pairs[TOKEN]);
	assert_int_equal(share_controller_slowdown(controller, 1, model.now_ns), 0);
	model_run(&model, 20);
	assert_in_range(share_controller_slowdown(controller, 1, model.now_ns), 940, 1120);
	assert_int_equal(share_controller_slowdown(controller, 2, model.now_ns), 0);
	assert_int_equal(share_controller_slowdown(controller, 1, model.now_ns + MODEL_S), 0);
	model.is_background = false;
	model_run(&model, 1);
	assert_int_equal(share_controller_slowdown(controller, 1, model.now_ns), 0);
}

/* The floor helps the foreground so much that it is worth what the background loses. */
static void test_worth_the_floor(_unused_ void **state)
{
	static const struct model_pair pair = {"work that only the floor spares", 1.0, 0.3,
		{{2, 1.0, 0.15}, {4, 1.5, 0.4}, {16, 1.6, 1}}, 2, 2, 0};

	model_init(&model, 2, drifts);
	model_foreground(&model, 0, &pair);
	check_arrives(pair.name, 10, 2, 2);
	check_arrives("... a minute later", 60, 2, 2);
}

static void test_floor(_unused_ void **state)
{
	model_init(&model, 7, quiet);
	model_foreground(&model, 0, &bears_least);
	for (int i = 0; i < 3000; i++) {
		model_run(&model, 0.001);
		assert_true(share_controller_groups(&model.controller, model.now_ns) >= 7);
	}
	assert_int_equal(model.controller.sizes[model.controller.good], 7);
}

/* A piece that does not end in a window of another size: the controller does not wait for it. */
static void test_work_without_end(_unused_ void **state)
{
	struct share_controller *controller = &model.controller;

	model_init(&model, 2, quiet);
	model_foreground(&model, 0, &pairs[PRODUCTS]);
	while (controller->phase != SHARE_TRIES || controller->at == controller->good)
		model_run(&model, 0.002);
	assert_int_equal(share_controller_groups(controller, model.now_ns),
		controller->sizes[controller->other]);
	assert_int_equal(share_controller_groups(controller, model.now_ns + MODEL_S),
		controller->sizes[controller->good]);
}

/* Whatever is noted, the size is one of the sizes, and honest foregrounds are served later. */
static void test_any_values(_unused_ void **state)
{
	static const uint64_t values[] = {0, 1, 15, 16, 17, 1000, 2 * MODEL_MS, MODEL_S, UINT32_MAX,
		INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
	uint64_t now = MODEL_S;

	model_init(&model, 2, quiet);
	for (int i = 0; i < 300000; i++) {
		uint64_t any[4];
		unsigned groups;

		for (unsigned k = 0; k < ARRAY_SIZE(any); k++)
			any[k] = values[(unsigned)rand() % ARRAY_SIZE(values)];
		now += (uint64_t)rand() % (5 * MODEL_MS);
		groups = share_controller_groups(&model.controller, i % 7 ? now : now / 2);
		assert_in_range(groups, 2, 16);
		share_controller_note(&model.controller, (uint32_t)any[0], any[1], any[2],
			i % 2 ? groups : (unsigned)any[3], i % 5 ? now : now / 2);
		share_controller_slowdown(&model.controller, (uint32_t)any[0], any[1]);
	}
	model.now_ns = now;
	model_foreground(&model, 0, &pairs[ELEMENTWISE]);
	check_arrives("after any values", 30, 4, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_mean_of_pairs),
		cmocka_unit_test(test_other_work),
		cmocka_unit_test(test_other_background),
		cmocka_unit_test(test_several_foregrounds),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_short_pieces),
		cmocka_unit_test(test_many_works),
		cmocka_unit_test(test_slowdown),
		cmocka_unit_test(test_worth_the_floor),
		cmocka_unit_test(test_floor),
		cmocka_unit_test(test_work_without_end),
		cmocka_unit_test(test_any_values),
	};

	srand(seed_read(1));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
