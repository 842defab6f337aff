/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whose turn a GPU is during probation (server/schedule/probation_turn.h), as rows of a script over
 * a clock that only the script moves. P is the program on probation, N are its neighbours:
 *
 *	5ms      time passes
 *	n+ n-    N has work on the GPU, and has none
 *	p+ p-    the same of P
 *	P P!     P may launch; it may not
 *	N N!     N may launch; it is held
 *	Q Q!     as P and P!, of another program on probation
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "server/schedule/probation_turn.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

/* Takes a turn that nobody disturbs. */
#define TURN "P! P "

/* N works all the time; P waits for PATIENCE, holds N, and N's work ends in time. */
#define DRAINED "n+ P! 20ms P! N! 5ms P! n- P "

/* Drains of 20, 40, 80 and 160 ms, after which N has the GPU for seven times as long. */
#define FAILED_DRAINS                                                                              \
	"n+ P! 20ms P! N! 20ms P! N 140ms P! N! 40ms P! N 280ms P! N! 80ms P! N 560ms P! N! "      \
	"160ms "                                                                                   \
	"P! "

static const struct row {
	const char *name, *script;
} rows[] = {
	/* ---- idle neighbours */
	{"beside idle neighbours it goes on at once", TURN "P P 1s P"},
	{"the second look finds what came in between", "P! n+ P! 1ms P! n- P"},
	{"work of a neighbour that is not over is waited for", "n+ P! 5ms P! n- P! P"},
	{"a neighbour that comes is held while work is on the GPU", TURN "p+ 1s N! 9ms N!"},
	{"... until that work has ended", TURN "p+ 1s N! 5ms p- N"},
	{"... for 10 ms at most", TURN "p+ 1s N! 10ms N"},
	{"... and at once if there is none", TURN "1s N"},
	{"while a neighbour is held nothing more is launched", TURN "p+ N! P!"},
	{"... and the turn ends when the work has", TURN "p+ N! 2ms p- P! N"},
	{"... also if that work lasts", TURN "p+ N! 10ms P! N"},
	{"then the neighbour has seven times as long", TURN "p+ N! 4ms p- P! 27ms P! 1ms P! P"},
	{"... although it has no work meanwhile", TURN "p+ N! 4ms p- N n- 27ms P! 1ms P! P"},
	{"... and nothing is owed if it was not held", TURN "N P! P"},

	/* ---- neighbours that work all the time */
	{"after 20 ms it holds neighbours", "n+ P! N 19ms P! N 1ms P! N! P!"},
	{"... until their work has ended", DRAINED},
	{"... and then for 10 ms", DRAINED "p+ P N! 9ms P N! 1ms P! N!"},
	{"... and until its work has ended", DRAINED "p+ 10ms P! N! p- P! N"},
	{"... for 10 ms at most", DRAINED "p+ 19ms P! N! 1ms N"},
	{"the slice is as long as the drain",
		"n+ P! 20ms P! N! 18ms P! n- P p+ 17ms P N! 1ms P! N! 10ms N"},
	{"a pause of the slice is the neighbour's", DRAINED "N! 400us N! 100us N"},
	{"... but not a shorter one", DRAINED "N! 400us P p+ N! 1ms p- N! 400us N!"},
	{"then neighbours have seven times as long",
		DRAINED "p+ 10ms p- P! N n+ 104ms P! N 1ms P! N! n- P"},

	/* ---- neighbours whose work lasts */
	{"a drain ends after 20 ms", "n+ P! 20ms P! N! 20ms P! N"},
	{"... by itself, if the worker on probation does not look",
		"n+ P! 20ms P! N! 29ms N! 1ms N"},
	{"... and costs nothing if nobody was held", "n+ P! 20ms P! 20ms P! P! N!"},
	{"the next one comes after seven times as long", "n+ P! 20ms P! N! 20ms P! N 139ms P! N"},
	{"... and takes twice as long",
		"n+ P! 20ms P! N! 20ms P! N 140ms P! N! 39ms N! P! 1ms P! N"},
	{"after the longest one, work goes beside that of others", FAILED_DRAINS "P N 2999ms P N"},
	{"... for three seconds", FAILED_DRAINS "P N 3s P! N 20ms P! N!"},
	{"... and then the longest drain is tried again",
		FAILED_DRAINS "P N 3s P! 20ms P! N! 159ms P! N! 1ms P! P"},
	{"work that ends in time later",
		FAILED_DRAINS "P N 3s P! 20ms P! N! 99ms n- P p+ N! 99ms P! N!"},

	/* ---- more programs on probation */
	{"two programs on probation take turns", TURN "Q! P"},
	{"... one after the other", TURN "p+ N! p- N Q! Q P!"},

	/* ---- an end */
	{"a program that gives up holds nobody", "n+ P! 20ms P! N! X N"},
	{"... nor ends another one's turn", TURN "p+ Y N!"},
};

struct scene {
	const struct row *row;
	struct probation_turn turn;
	uint64_t now_ns, since_ns[2];
	bool n_works, p_works;
};

static uint64_t take_time(char *word)
{
	char *unit;
	uint64_t n = strtoull(word, &unit, 10);

	if (strcmp(unit, "us") == 0)
		return n * US;
	if (strcmp(unit, "ms") == 0)
		return n * MS;
	assert_string_equal(unit, "s");
	return n * 1000 * MS;
}

static bool take_turn(struct scene *scene, unsigned i)
{
	struct probation_view view = {.now_ns = scene->now_ns,
		.others_work = scene->n_works || (i == 1 && scene->p_works),
		.own_work = i == 0 && scene->p_works};
	bool may;

	if (scene->since_ns[i] == 0)
		scene->since_ns[i] = scene->now_ns;
	view.since_ns = scene->since_ns[i];
	may = probation_turn_take(&scene->turn, i + 1, &view);
	if (may)
		scene->since_ns[i] = 0;
	return may;
}

static bool may_go(struct scene *scene, char who)
{
	if (who == 'N')
		return !probation_turn_holds(&scene->turn, scene->now_ns, scene->p_works);
	return take_turn(scene, who == 'Q');
}

static void take_word(struct scene *scene, char *word, const char *so_far)
{
	const bool is_on = word[1] == '+';

	if (word[0] >= '0' && word[0] <= '9')
		scene->now_ns += take_time(word);
	else if (word[0] == 'n')
		scene->n_works = is_on;
	else if (word[0] == 'p')
		scene->p_works = is_on;
	else if (word[0] == 'X' || word[0] == 'Y')
		probation_turn_end(&scene->turn, word[0] == 'X' ? 1 : 2, scene->now_ns);
	else if (may_go(scene, word[0]) != (word[1] != '!'))
		fail_msg("%s: %s: %s", scene->row->name, so_far, word);
}

static void test_row(void **state)
{
	struct scene scene = {.row = *state, .now_ns = MS};
	char text[512], so_far[512] = "", *rest = text, *word;

	assert_true(strlen(scene.row->script) < sizeof(text));
	strcpy(text, scene.row->script);
	while ((word = strsep(&rest, " ")))
		if (*word) {
			take_word(&scene, word, so_far);
			strcat(strcat(so_far, word), " ");
		}
}

/* N wants the GPU always, P too: how much of the time is N held, and how long at a time? */
static void test_shares(void **state)
{
	static const uint64_t kernels_us[] = {10, 1000, 15000, 100000, 1000000};
	const uint64_t end_ns = 100000 * MS;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kernels_us); i++)
		for (size_t j = 0; j < ARRAY_SIZE(kernels_us); j++) {
			struct scene scene = {.now_ns = MS};
			uint64_t n_end = 0, p_end = 0, held = 0, longest = 0, now_held = 0, n_p = 0;

			for (; scene.now_ns < end_ns; scene.now_ns += 10 * US) {
				scene.n_works = scene.now_ns < n_end;
				scene.p_works = scene.now_ns < p_end;
				if (!scene.p_works && take_turn(&scene, 0)) {
					p_end = scene.now_ns + kernels_us[i] * US;
					n_p++;
				}
				scene.p_works = scene.now_ns < p_end;
				if (scene.n_works)
					continue;
				if (probation_turn_holds(
					    &scene.turn, scene.now_ns, scene.p_works)) {
					now_held += 10 * US;
					held += 10 * US;
				} else {
					n_end = scene.now_ns + kernels_us[j] * US;
					now_held = 0;
				}
				longest = MAX(longest, now_held);
			}
			if (held > end_ns / 8 + 400 * MS || longest > 331 * MS || n_p == 0)
				fail_msg("P %zu us, N %zu us: held %zu ms, %zu ms at a time, %zu "
					 "launches of P",
					(size_t)kernels_us[i], (size_t)kernels_us[j],
					(size_t)(held / 1000000), (size_t)(longest / 1000000),
					(size_t)n_p);
		}
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(rows) + 1];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		tests[i] = (struct CMUnitTest){.name = rows[i].name,
			.test_func = test_row,
			.initial_state = (void *)&rows[i]};
	tests[ARRAY_SIZE(rows)] = (struct CMUnitTest)cmocka_unit_test(test_shares);
	return _cmocka_run_group_tests("probation_turn", tests, ARRAY_SIZE(tests), NULL, NULL);
}
