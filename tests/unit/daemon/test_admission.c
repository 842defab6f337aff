/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How many connections a user may have, and which one is closed when there are too many
 * (daemon/conn/admission.c); what an account may have of anything (daemon/state/account.h).
 */

#include <stdio.h>
#include <string.h>

#include "rows.h"
#include "scene.h"
#include "scene_state.h"
#include "daemon/state/account.h"
#include "daemon/state/tenant.h"
#include "daemon/state/tenant_log.h"

static const struct scene_row rows[] = {
	/* ---- silence */
	{"a connection may be silent for a while", "A<3 4s", "silent A*3", NULL},
	{"... of five seconds", "A<3 6s", "", NULL},
	{"... root's, too", "R<1 6s", "", NULL},
	{"... and a part of a line is not enough", "A\"get_ser 6s", "", NULL},
	{"an account has 256 silent connections", "A<256", "silent A*256", NULL},
	{"... and its oldest goes for the next", "A<257", "silent A*256",
		"Account 1000 has more than 256 silent connections: closing the oldest"},
	{"... of all its subordinate UIDs together", "A<200 a<40 b<20", "silent A*196 a*40 b*20",
		NULL},
	{"... while others have theirs", "A<256 B<1", "silent A*256 B", NULL},
	{"a connection that has said something is not silent", "A<200 A1..A57",
		"S1 of A starting; waiting A1..A57; silent A*200", NULL},
	{"root has 256 silent connections, too", "R<258", "silent R*256", NULL},

	/* ---- all connections of guests */
	{"guests have a number of connections together", "conns=6 A<3 B<3", "silent A*3 B*3", NULL},
	{"root's are not among them", "conns=6 A<3 B<3 R<9", "silent A*3 B*3 R*9", NULL},
	{"... nor is one of them closed", "conns=6 R<9 A<4 B<3", "silent A*3 B*3 R*9", NULL},
	{"an account with more than four loses one", "conns=6 A<6 B<1", "silent A*5 B",
		"All users together have 7 connections, one more than the limit: closing one of "
		"user 1000"},
	{"... its oldest", "conns=6 A1 A<5 B<1", "S1 of A starting; waiting A1; silent A*4 B",
		NULL},
	{"... a silent one first", "conns=6 A1..A5 A<1 B<1",
		"S1 of A starting; waiting A1..A5; silent B", NULL},
	{"... then one between two commands", "conns=6 A1..A5 A[nope] B<1",
		"S1 of A starting; waiting A1..A5; [failed]; silent B",
		"closing one of user 1000 (of account 1000, which has 6)"},
	{"... then a client that waits", "conns=6 A1..A6 B<1",
		"S1 of A starting; waiting A2..A6; refused 808 A1; silent B",
		"has too many connections (7), 6 of them of UID 1000 and its subordinate UIDs"},
	{"... before a command that waits", "conns=6 A1..A5 A[start_server -uid A] B<1",
		"S1 of A starting; waiting A2..A5; refused 808 A1; [waits]; silent B", NULL},
	{"... and a command at last", "conns=6 A[start_server -uid A]*6 B<1",
		"S1 of A starting; [closed]; [waits]*5; silent B", NULL},
	{"with four each the silent one goes", "conns=8 A1..A4 B1..B3 B<1 C<1",
		"S1 of A starting; S2 of B starting; waiting A1..A4 B1..B3; silent C", NULL},
	{"... then one of the larger account", "conns=8 A<4 B<3 C<2", "silent A*3 B*3 C*2", NULL},
	{"... with its subordinate UIDs", "conns=8 A<2 a<2 B<3 C<2", "silent A B*3 C*2 a*2", NULL},
	{"... then the oldest", "conns=4 A<2 B<2 C<2", "silent A B C*2", NULL},
	{"a served client is no connection of the daemon", "conns=3 A1 A2 S1+ A3 B<2",
		"S1 of A: A1..A3; silent B*2", NULL},
	{"the connection of a server is, and is not closed", "conns=3 A1 S1+ A<2 B<1",
		"S1 of A: A1; silent A B", NULL},

	/* ---- commands */
	{"an account gives 64 commands at once", "A[nope]*64", "[failed]*64", NULL},
	{"... and the next one waits", "A[nope]*65", "[failed]*64; [waits]", NULL},
	{"... until one has ended", "A[nope]*65 [-1", "[closed]; [failed]*64", NULL},
	{"... or is closed for its silence after eight seconds", "A[nope]*65 9s", "[failed]*65",
		"Account 1000 has reached the limit of command connections: closing the oldest "
		"silent one"},
	{"... and not sooner", "A[nope]*65 7s", "[failed]*64; [waits]", NULL},
	{"... which a command that waits is not", "A[start_server -uid A]*64 A[nope] 9s",
		"S1 of A starting; [waits]*65", NULL},
	{"... and eight seconds later again", "A[start_server -uid A]*64 A[nope] 9s S1+ 8s",
		"S1 of A; [done]*64; [failed]", NULL},
	{"... nor is it run after its sender has left", "A[nope]*64 A[start_server -uid A] [- [-1",
		"[closed]; [failed]*63; [closed]", NULL},
	{"... of all its subordinate UIDs together", "A[nope]*60 a[nope]*4 b[nope]",
		"[failed]*64; [waits]", NULL},
	{"... while others give theirs", "A[nope]*65 B[nope]", "[failed]*64; [waits]; [failed]",
		NULL},
	{"... and root 256", "R[nope]*257", "[failed]*256; [waits]", NULL},
	{"... and a daemon's own user", "user A[nope]*257", "[failed]*256; [waits]", NULL},
	{"those that wait are served in their order", "A[nope]*66 [-1 [-2",
		"[closed]*2; [failed]*64", NULL},
	{"... one for one", "A[nope]*66 [-1", "[closed]; [failed]*64; [waits]", NULL},
};

/* ---- what an account may have: of servers, sessions, tenants, places of clients that wait */

static const struct share_row {
	const char *rule;
	unsigned n_own, n_all, n_max;
	bool may_take;
} share_rows[] = {
	{"the first one", 0, 0, 8, true},
	{"... if no other account has any", 3, 3, 8, true},
	{"... no more than is left to others", 4, 4, 8, false},
	{"... an odd one is for whoever comes first", 4, 4, 9, true},
	{"... and half of what others leave", 1, 4, 8, true},
	{"... not more than that half", 2, 6, 8, false},
	{"the first one is for an account that has none", 0, 7, 8, true},
	{"... and not for one that has some", 1, 7, 8, false},
	{"nothing is left", 0, 8, 8, false},
	{"more was taken than there is now", 0, 9, 8, false},
	{"... of which it has some", 3, 9, 8, false},
	{"a single place", 0, 0, 1, true},
	{"a single place that is taken", 0, 1, 1, false},
	{"no place", 0, 0, 0, false},
};

static void test_share(void **state)
{
	const struct share_row *row = *state;

	assert_int_equal(account_may_take(row->n_own, row->n_all, row->n_max), row->may_take);
}

/* ---- lines of control.log that connections of an account cause */

static const struct lines_row {
	const char *rule, *steps; /* "A*100": a hundred lines; "1s" */
	unsigned n_of_a, n_of_b;  /* lines in the log */
	const char *says;
} lines_rows[] = {
	{"an account has 10000 lines at once", "A*10001", 10000, 0,
		"Account 1000 causes too many lines: dropping the next ones"},
	{"... with its subordinate UIDs", "A*6000 a*5000", 6000, 0,
		"Account 1000 causes too many lines: dropping the next ones"},
	{"... and then 100 each second, and the number of those that were dropped",
		"A*10500 2s A*300", 10200, 0,
		"500 lines about connections of account 1000 were dropped"},
	{"... while others have theirs", "A*10500 B*100", 10000, 100, NULL},
};

static void write_lines(char letter, unsigned n)
{
	struct tenant *tenant = tenant_get(scene_daemon(), scene_uid(letter), -EBADF);

	assert_non_null(tenant);
	for (unsigned i = 0; i < n; i++)
		tenant_log(tenant, &(struct log_subject){0}, "a line of %c", letter);
}

static void test_lines(void **state)
{
	const struct lines_row *row = *state;
	char steps[64], *rest = steps;

	scene_begin("");
	snprintf(steps, sizeof(steps), "%s", row->steps);
	for (char *step = strsep(&rest, " "); step; step = strsep(&rest, " "))
		if (step[1] == '*')
			write_lines(step[0], (unsigned)atoi(step + 2));
		else
			scene_play(step);
	assert_int_equal(scene_count_said("a line of A\n"), row->n_of_a);
	assert_int_equal(scene_count_said("a line of B\n"), row->n_of_b);
	if (row->says)
		assert_true(scene_count_said(row->says) > 0);
	scene_end();
}

int main(void)
{
	int n_failed = scene_run_rows("admission", rows, ARRAY_SIZE(rows));

	n_failed += rows_run(
		"share", test_share, share_rows, sizeof(*share_rows), ARRAY_SIZE(share_rows));
	n_failed += rows_run(
		"lines", test_lines, lines_rows, sizeof(*lines_rows), ARRAY_SIZE(lines_rows));
	return n_failed;
}
