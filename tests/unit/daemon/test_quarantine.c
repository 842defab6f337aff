/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Programs that cause faults: how long they wait, and when they get a server of their own
 * (daemon/state/quarantine.c).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base.h"
#include "scene.h"

/* The first fault of program 7, and what ends after it. */
#define ONE_FAULT "A1:7 S1+ S1:fault=A1 S1:crash"
#define TWO_FAULTS ONE_FAULT " A2:7 S2+ 500ms S2:fault=A2 S2:crash"

/* One of each of eight programs. */
#define EIGHT_FAULTS                                                                               \
	"A1:1 S1+ S1:fault=A1 S1:crash A2:2 S2+ S2:fault=A2 S2:crash "                             \
	"A3:3 S3+ S3:fault=A3 S3:crash A4:4 S4+ S4:fault=A4 S4:crash "                             \
	"A5:5 S5+ S5:fault=A5 S5:crash A6:6 S6+ S6:fault=A6 S6:crash "                             \
	"A7:7 S7+ S7:fault=A7 S7:crash A8:8 S8+ S8:fault=A8 S8:crash 1s "

/* A client of program 7 and one of program 8. */
#define BOTH " A8:7 A9:8"

static const struct scene_row rows[] = {
	/* ---- the wait */
	{"a program that has caused a fault waits for its next start", ONE_FAULT " A2:7 S2+",
		"S2 of A; waiting A2; closed A1", "waits 250 ms: its program"},
	{"... for 250 ms", ONE_FAULT " A2:7 S2+ 250ms", "S2 of A: A2; closed A1", NULL},
	{"... and not if that has passed", ONE_FAULT " 250ms A2:7 S2+", "S2 of A: A2; closed A1",
		NULL},
	{"... while other programs do not wait", ONE_FAULT " A2:7 A3:8 S2+",
		"S2 of A: A3; waiting A2; closed A1", NULL},
	{"... nor the same program of other users", ONE_FAULT " B1:7 S2+", "S2 of B: B1; closed A1",
		NULL},
	{"... nor that of a user's subordinate UIDs", ONE_FAULT " a1:7 S2+",
		"S2 of a: a1; closed A1", NULL},
	{"... nor programs that ran beside it", "A1:7 A2:8 S1+ S1:fault=A1 S1:crash A3:8 S2+",
		"S2 of A: A3; closed A1 A2", NULL},
	{"a fault whose cause is unknown delays no program", "A1:7 S1+ S1:fault S1:crash A2:7 S2+",
		"S2 of A: A2; closed A1", NULL},
	{"a fault counts when it is reported, not when the server has ended",
		"A1:7 S1+ S1:fault=A1 300ms S1:crash A2:7 S2+", "S2 of A: A2; closed A1", NULL},
	{"a crash is no fault", "A1:7 S1+ S1:crash A2:7 S2+", "S2 of A: A2; closed A1", NULL},
	{"a server has one fault", "A1:7 S1+ S1:fault=A1 S1:fault=A1 S1:crash" BOTH,
		"S2 of A starting; waiting A8 A9; closed A1", NULL},
	{"after the second fault it waits for 500 ms", TWO_FAULTS " A3:7 S3+ 400ms",
		"S3 of A; waiting A3; closed A1 A2", "waits 500 ms"},
	{"... and no longer", TWO_FAULTS " A3:7 S3+ 600ms", "S3 of A: A3; closed A1 A2", NULL},
	{"after the third for a second", TWO_FAULTS " A3:7 S3+ 600ms S3:fault=A3 S3:crash A4:7",
		"S4 of A starting; waiting A4; closed A1..A3", "waits 1000 ms"},
	{"after the fourth for two",
		TWO_FAULTS
		" A3:7 S3+ 600ms S3:fault=A3 S3:crash A4:7 S4+ 2s S4:fault=A4 S4:crash A5:7",
		"S5 of A starting; waiting A5; closed A1..A4", "waits 2000 ms"},
	{"... which is the most",
		TWO_FAULTS " A3:7 S3+ 600ms S3:fault=A3 S3:crash A4:7 S4+ 2s S4:fault=A4 S4:crash "
			   "A5:7 S5+ 2500ms S5:fault=A5 S5:crash A6:7 S6+ 2500ms",
		"S6 of A: A6; closed A1..A5", NULL},
	{"a server is not idle while its program waits",
		"idle=1 " TWO_FAULTS
		" A3:7 S3+ 600ms S3:fault=A3 S3:crash A4:7 S4+ 1100ms S4:fault=A4 "
		"S4:crash A5:7 S5+ 2500ms",
		"S5 of A: A5; closed A1..A4", NULL},
	{"after a minute the next fault is the first again",
		ONE_FAULT " 61s A2:7 S2+ S2:fault=A2 S2:crash A3:7 S3+ 250ms",
		"S3 of A: A3; closed A1 A2", NULL},

	/* ---- probation */
	{"after one fault the program keeps its server, on probation", ONE_FAULT BOTH,
		"S2 of A starting; waiting A8 A9; closed A1",
		"has caused a GPU fault: it is on probation for 600 s"},
	{"... which its clients are told of", ONE_FAULT " 59s" BOTH,
		"S2 of A starting; waiting A8 A9; closed A1",
		"is on probation for 541 s, because its program, "},

	/* ---- a server of its own */
	{"two faults within a minute are not", TWO_FAULTS BOTH,
		"S3 of A starting; S4 of A starting; waiting A8 A9; closed A1 A2",
		"has caused 2 GPU faults within 60 s: it is quarantined"},
	{"... and the next one affects no other program",
		TWO_FAULTS BOTH " S3+ S4+ 600ms S3:fault=A8 S3:crash",
		"S4 of A: A9; closed A1 A2 A8",
		"gets a server of its own: its program is quarantined"},
	{"... nor with -M other users",
		"multi A1:7 S1+ S1:fault=A1 S1:crash A2:7 S2+ 500ms S2:fault=A2 S2:crash A3:7 B1:7",
		"S3 of N starting; S4 of N starting; waiting A3 B1; closed A1 A2", NULL},
	{"two faults of two programs are one each",
		"A1:7 S1+ S1:fault=A1 S1:crash A2:8 S2+ S2:fault=A2 S2:crash" BOTH,
		"S3 of A starting; waiting A8 A9; closed A1 A2", NULL},
	{"two faults in more than a minute are one each",
		ONE_FAULT " 61s A2:7 S2+ S2:fault=A2 S2:crash" BOTH,
		"S3 of A starting; waiting A8 A9; closed A1 A2", NULL},
	{"ten minutes without a fault end the quarantine", TWO_FAULTS " 601s" BOTH,
		"S3 of A starting; waiting A8 A9; closed A1 A2", NULL},
	{"... and not less", TWO_FAULTS " 590s" BOTH,
		"S3 of A starting; S4 of A starting; waiting A8 A9; closed A1 A2", NULL},
	{"... after the last fault", TWO_FAULTS " A3:7 S3+ 590s S3:fault=A3 S3:crash 590s" BOTH,
		"S4 of A starting; S5 of A starting; waiting A8 A9; closed A1..A3", NULL},
	{"a quarantined program counts as an isolated one",
		TWO_FAULTS " A11!1 A12!2 A13!3 A14!4 A15!5 A16!6 A17!7 A18!8 A8:7",
		"S3..S10 starting; waiting A11..A18 A8; closed A1 A2", NULL},
	{"... of which an account has eight",
		TWO_FAULTS " A11!11 A12!12 A13!13 A14!14 A15!15 A16!16 A17!17 A18!18 A8:7",
		"S3..S10 starting; waiting A11..A18; refused 808 A8; closed A1 A2",
		"has 8 isolated programs"},
	{"a program that is quarantined and faults after more than a minute waits as at first",
		TWO_FAULTS " A3:7 S3+ 90s S3:fault=A3 S3:crash A4:7 S4+ 400ms",
		"S4 of A: A4; closed A1..A3", NULL},
	{"faults of eight programs are remembered",
		EIGHT_FAULTS "A11:1 S9+ 250ms S9:fault=A11 S9:crash 1s A12:1 A13:10",
		"S10 of A starting; S11 of A starting; waiting A12 A13; closed A1..A8 A11", NULL},
	{"... and then the oldest is forgotten",
		EIGHT_FAULTS "A9:9 S9+ S9:fault=A9 S9:crash A11:1 S10+ S10:fault=A11 S10:crash 1s "
			     "A12:1 A13:10",
		"S11 of A starting; waiting A12 A13; closed A1..A9 A11", NULL},
};

/* What the server of a client is told. */
static const struct probation_row {
	const char *rule, *script, *client;
	uint32_t left_ms;
} probations[] = {
	{"a program that has caused no fault is not on probation", "A1:7 S1+", "A1", 0},
	{"one that has caused a fault is", ONE_FAULT " 1s A8:7 S2+", "A8", 599000},
	{"... for ten minutes", ONE_FAULT " 599s A8:7 S2+", "A8", 1000},
	{"... and no longer", ONE_FAULT " 600s A8:7 S2+", "A8", 0},
	{"other programs are not", ONE_FAULT " 1s A9:8 S2+", "A9", 0},
	{"nor the same program of another user", ONE_FAULT " 1s B1:7 S2+", "B1", 0},
	{"nor one whose server has no other programs", ONE_FAULT " 1s A8!7 S2+", "A8", 0},
	{"nor one that is quarantined", TWO_FAULTS " 1s A8:7 S3+", "A8", 0},
	{"a fault in more than a minute renews it",
		ONE_FAULT " 300s A2:7 S2+ S2:fault=A2 S2:crash 1s A8:7 S3+", "A8", 599000},
	{"a fault whose cause is unknown puts no program on probation",
		"A1:7 S1+ S1:fault S1:crash 1s A8:7 S2+", "A8", 0},
};

static void test_probation(void **state)
{
	const struct probation_row *row = *state;

	scene_begin(row->script);
	assert_int_equal(scene_limits(row->client)->probation_ms, row->left_ms);
	scene_end();
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(probations)];
	int n_failed = scene_run_rows("quarantine", rows, ARRAY_SIZE(rows));

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		tests[i] = (struct CMUnitTest){.name = probations[i].rule,
			.test_func = test_probation,
			.initial_state = (void *)&probations[i]};
	return n_failed + cmocka_run_group_tests_name("probation", tests, NULL, NULL);
}
