/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns on GPUs that admit one process (daemon/server/turns.c).
 */

#include "base.h"
#include "scene.h"

/* A has the only server, and a probe has confirmed that the GPU admits no second one. */
#define TURN_OF_A "A1 S1+x S2:gpux "

static const struct scene_row rows[] = {
	/* ---- who has the turn */
	{"the first user has the GPU", TURN_OF_A, "S1 of A: A1", NULL},
	{"a second user waits for its turn", TURN_OF_A "B1", "S1 of A stopping: A1; turn B1",
		"server 1073741824 of UID 1000 has exclusive use of the GPU"},
	{"... and starts when the clients of the first have left", TURN_OF_A "B1 A1-",
		"S3 of B starting; waiting B1", "the server starts"},
	{"... and is served", TURN_OF_A "B1 A1- S3+x", "S3 of B: B1", NULL},
	{"a later client of the first user waits, too", TURN_OF_A "B1 A2",
		"S1 of A stopping: A1; turn B1 A2", NULL},
	{"... and comes after the second user", TURN_OF_A "B1 A2 A1-",
		"S3 of B starting; waiting B1; turn A2", NULL},
	{"... when its clients have left", TURN_OF_A "B1 A2 A1- S3+x B1- 250ms",
		"S4 of A starting; waiting A2", NULL},
	{"who has waited longest is next", TURN_OF_A "C1 B1 A1-",
		"S3 of C starting; waiting C1; turn B1", NULL},
	{"... root, too", TURN_OF_A "B1 R1 A1-", "S3 of B starting; waiting B1; turn R1", NULL},
	{"a client that has left has no turn", TURN_OF_A "B1 C1 B1- A1-",
		"S3 of C starting; waiting C1", NULL},
	{"an isolated program has a turn of its own", TURN_OF_A "A2!7",
		"S1 of A stopping: A1; turn A2", NULL},
	{"a server without clients gives way at once", TURN_OF_A "A1- B1",
		"S3 of B starting; waiting B1", NULL},
	{"... one that was started without them, too", "[start_server -uid A] S1+x S2:gpux B1",
		"S3 of B starting; waiting B1; [done]", NULL},
	{"without others a user's clients come and go", TURN_OF_A "A1- 60s A2", "S1 of A: A2",
		NULL},
	{"a client waits for its turn for any time", TURN_OF_A "B1 900s",
		"S1 of A stopping: A1; turn B1", NULL},
	{"... and its whole patience for the server", TURN_OF_A "B1 900s A1- 49s",
		"S3 of B starting; waiting B1", NULL},
	{"start_server does not", TURN_OF_A "[start_server -uid B] 59s",
		"S1 of A stopping: A1; [failed]", "wait until its 1 clients have exited"},
	{"a server that fails leaves its turn to the next", TURN_OF_A "B1 S1:crash",
		"S3 of B starting; waiting B1; closed A1", NULL},
	{"a server that does not give way is ended once it has no clients",
		TURN_OF_A "S1:busy B1 A1- 16s", "S3 of B starting; waiting B1",
		"did not end in time"},
	{"quit refuses those that wait for a turn", TURN_OF_A "B1 [quit -t 0]",
		"refused 805 B1; closed A1; [done]", "The MPS daemon is quitting"},

	/* ---- who says so */
	{"root's server is believed", "R1 S1+x A1", "S1 of R stopping: R1; turn A1", NULL},
	{"... if it has the default mode, too", "R1 S1+ A1",
		"S1 of R: R1; S2 of A starting; waiting A1", NULL},
	{"with -M the server is believed", "multi A1 S1+x B1!7", "S1 of N stopping: A1; turn B1",
		NULL},
	{"a daemon's user is believed", "user A1 S1+x A2!7", "S1 of A stopping: A1; turn A2", NULL},
	{"another user's server is not: the daemon probes", "A1 S1+x", "S1 of A: A1; S2 probes",
		"probes for GPUs"},
	{"... and lets no one start meanwhile", "A1 S1+x B1", "S1 of A: A1; S2 probes; waiting B1",
		NULL},
	{"... who starts if the probe finds otherwise", "A1 S1+x B1 S2:gpu 250ms",
		"S1 of A: A1; S3 of B starting; waiting B1", NULL},
	{"... and waits for a turn if it finds the same", "A1 S1+x B1 S2:gpux",
		"S1 of A stopping: A1; turn B1", NULL},
	{"... who all start at once", "A1 S1+x B1 C1 S2:gpu 250ms",
		"S1 of A: A1; S3 of B starting; S4 of C starting; waiting B1 C1", NULL},
	{"a probe that fails changes nothing", "A1 S1+x B1 S2:crash 250ms",
		"S1 of A: A1; S3 of B starting; waiting B1", "The GPUs are not known"},
	{"who waited before the probe does not wait for it", "A1 B1 S1+x C1",
		"S1 of A: A1; S2 of B starting; S3 probes; waiting B1 C1", NULL},
	{"a server that lies does not end others", "A1 S1+ B1 S2+ S1:modex S3:gpu",
		"S1 of A: A1; S2 of B: B1", NULL},

	/* ---- servers that started before the mode was known */
	{"the later server ends", "R1 A1 S1+x S2+x", "S1 of R stopping: R1; waiting A1",
		"waits for its turn: a GPU is in compute mode EXCLUSIVE_PROCESS"},
	{"... even if it is ready first", "A1 R1 S2+x S1+x 250ms",
		"S1 of A stopping: A1; waiting R1", NULL},
	{"... or a probe says so", "A1 B1 S1+x S3:gpux", "S1 of A stopping: A1; turn B1", NULL},

	/* ---- the default mode again */
	{"root's next server reports the default mode", "R1 S1+x A1 R1- S2+x R2 A1- S3+ A2",
		"S3 of R: R2; S4 of A starting; waiting A2", NULL},
	{"... a user's is not believed without a probe", TURN_OF_A "B1 A1- S3+ 5s",
		"S3 of B: B1; S4 probes", NULL},
	{"... and then others may start", TURN_OF_A "B1 A1- S3+ 5s S4:gpu A2",
		"S3 of B: B1; S5 of A starting; waiting A2", NULL},
};

int main(void)
{
	return scene_run_rows("turns", rows, ARRAY_SIZE(rows));
}
