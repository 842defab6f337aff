/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When a server is started, started again, delayed, or refused (daemon/server/start.c).
 */

#include "base.h"
#include "scene.h"

/* Six starts that failed, with the pauses between them. */
#define SIX_CRASHES "A1 S1:crash S2:crash 1s S3:crash 1s S4:crash 1s S5:crash 2s S6:crash"

/* Ten starts at once, all that an account may have. */
#define TEN_STARTS "a1 b1 c1 d1 e1 f1 g1 h1 i1 j1"

static const struct scene_row rows[] = {
	/* ---- the first server */
	{"without clients there is no server", "1s", "", NULL},
	{"the first client starts its user's server", "A1", "S1 of A starting; waiting A1", NULL},
	{"a server that is ready gets the client that waits", "A1 S1+", "S1 of A: A1", NULL},
	{"one server serves all clients of a user", "A1 A2 S1+ A3", "S1 of A: A1..A3", NULL},
	{"each user has a server", "A1 B1 S1+", "S1 of A: A1; S2 of B starting; waiting B1", NULL},
	{"a server whose client has left goes on", "A1 A1- S1+", "S1 of A", NULL},
	{"a server that cannot be started is an error", "nofork=1 A1", "refused 805 A1",
		"Cannot fork mps-server"},
	{"... for each client that waits", "nofork=1 A1 [start_server -uid A]",
		"refused 805 A1; [failed]", "Cannot fork mps-server"},
	{"an impossible user is an error, and not tried again", "A1 S1:nouser", "refused 805 A1",
		"exited with status 67"},
	{"... with the last line of its log", "A1 S1:print=broken S1:nouser", "refused 805 A1",
		"exited with status 67, its last output: broken"},
	{"a daemon of a user serves that user", "user A1", "S1 of A starting; waiting A1", NULL},
	{"... and no other", "user B1", "refused 800 B1", "start it as root"},
	{"... not even root", "user R1", "refused 800 R1", "serve UID 0 too"},

	/* ---- a start that takes too long */
	{"a server has 50 s to become ready", "A1 49s", "S1 of A starting; waiting A1", NULL},
	{"then it is replaced", "A1 51s", "S2 of A starting; waiting A1",
		"did not become ready in time"},
	{"... two seconds later if it ignores that", "deaf=1 A1 51s",
		"S1 of A starting; waiting A1", "sending SIGTERM"},
	{"... by force", "deaf=1 A1 53s", "S2 of A starting; waiting A1", "sending SIGKILL"},
	{"a server that connects has to become ready, too", "A1 S1:hello 51s",
		"S2 of A starting; waiting A1", "did not become ready in time"},

	/* ---- restarts */
	{"a server that crashes is started again at once", "A1 S1:crash",
		"S2 of A starting; waiting A1", "was ended by signal 11"},
	{"a restart needs a client", "A1 A1- S1:crash", "", NULL},
	{"the second restart has a pause", "A1 S1:crash S2:crash", "waiting A1", NULL},
	{"... of 200 ms", "A1 S1:crash S2:crash 250ms", "S3 of A starting; waiting A1", NULL},
	{"the third restart has a longer pause", "A1 S1:crash S2:crash 250ms S3:crash 350ms",
		"waiting A1", NULL},
	{"... of 400 ms", "A1 S1:crash S2:crash 250ms S3:crash 500ms",
		"S4 of A starting; waiting A1", NULL},
	{"the fourth restart has a pause of 800 ms",
		"A1 S1:crash S2:crash 250ms S3:crash 500ms S4:crash 700ms", "waiting A1", NULL},
	{"after five restarts it is an error", SIX_CRASHES, "refused 805 A1",
		"was restarted 5 times within 10 s"},
	{"... for the next client, too", SIX_CRASHES " A2", "refused 805 A1 A2", NULL},
	{"... and not for other users", SIX_CRASHES " B1",
		"S7 of B starting; waiting B1; refused 805 A1", NULL},
	{"... until ten seconds have passed", SIX_CRASHES " 10s A2",
		"S7 of A starting; waiting A2; refused 805 A1", NULL},
	{"an exit before it is ready is a failure, whatever its status", "A1 S1:exit S2:exit",
		"waiting A1", "exited with status 0"},
	{"a crash of a ready server is a failure", "A1 S1+ S1:crash A2 S2:crash",
		"waiting A2; closed A1", NULL},
	{"an exit of a ready server is not", "A1 S1+ S1:exit A2 S2+ S2:exit A3",
		"S3 of A starting; waiting A3; closed A1 A2", NULL},
	{"a fault of a client is not", "A1 S1+ S1:fault S1:crash A2 S2+ S2:fault S2:crash A3",
		"S3 of A starting; waiting A3; closed A1 A2", NULL},
	{"an end that was asked for is not", "A1 [shutdown_server S1] A2 [shutdown_server S2]",
		"S3 of A starting; waiting A1 A2; [done]*2", NULL},

	/* ---- the number of servers */
	{"a place is kept for root", "max=3 A1 B1 C1",
		"S1 of A starting; S2 of B starting; waiting A1 B1; refused 808 C1",
		"has 2 servers with clients, which is the maximum"},
	{"root has it", "max=3 A1 B1 R1",
		"S1 of A starting; S2 of B starting; S3 of R starting; waiting A1 B1 R1", NULL},
	{"a single place is not kept", "max=1 A1", "S1 of A starting; waiting A1", NULL},
	{"... and then there is none for root", "max=1 A1 R1",
		"S1 of A starting; waiting A1; refused 808 R1", NULL},
	{"a server without clients makes room", "max=3 A1 B1 S1+ S2+ A1- C1",
		"S2 of B: B1; S3 of C starting; waiting C1",
		"has no clients and is stopped to start one for user 1002"},
	{"... the one without clients for longest", "max=3 A1 B1 S1+ S2+ B1- 1s A1- C1",
		"S1 of A; S3 of C starting; waiting C1", NULL},
	{"the next server waits until it has ended", "max=3 A1 B1 S1+ S2+ S1:busy A1- C1",
		"S1 of A stopping; S2 of B: B1; waiting C1", NULL},
	{"... and takes its place", "max=3 A1 B1 S1+ S2+ S1:busy A1- C1 S1:exit",
		"S2 of B: B1; S3 of C starting; waiting C1", NULL},
	{"a server that ends already is enough",
		"max=3 A1 B1 S1+ S2+ S1:busy A1- [shutdown_server S1] C1",
		"S1 of A stopping; S2 of B: B1; waiting C1; [done]", NULL},
	{"a server that ends after its clients does not make room",
		"max=3 A1 B1 S1+ S2+ [shutdown_server S1] C1",
		"S1 of A stopping: A1; S2 of B: B1; refused 808 C1; [done]", NULL},
	{"root's server makes no room for others", "max=3 R1 S1+ R1- A1 B1 C1",
		"S1 of R; S2 of A starting; S3 of B starting; waiting A1 B1; refused 808 C1", NULL},
	{"a server that is starting makes no room", "max=3 A1 A1- B1 C1",
		"S1 of A starting; S2 of B starting; waiting B1; refused 808 C1", NULL},

	{"of those that wait for a place the one who has started none for longest has it",
		"max=3 A<1 B1 A1 S1+ S2+ B1- A1- [shutdown_server S1] [shutdown_server S2] "
		"C1 D1 S3+ S4+ S3:busy C1- A2 B2 S3:exit",
		"S4 of D: D1; S5 of B starting; waiting B2; refused 808 A2; [done]*2; silent A",
		NULL},

	/* ---- the share of an account */
	{"an account has no more servers than it leaves to others", "max=8 a1 b1 c1 d1 A1",
		"S1..S4 starting; waiting a1 b1 c1 d1; refused 808 A1",
		"UID 1000 with its subordinate UIDs has 4 servers with clients"},
	{"others have theirs", "max=8 a1 b1 c1 d1 B1 C1",
		"S1..S6 starting; waiting a1 b1 c1 d1 B1 C1", NULL},
	{"its own server without clients makes room", "max=8 a1 b1 c1 d1 S1+ a1- e1",
		"S2..S5 starting; waiting b1 c1 d1 e1", NULL},
	{"a server of others does not", "max=8 B1 a1 b1 c1 S1+ B1- d1",
		"S1 of B; S2 of a starting; S3 of b starting; S4 of c starting; waiting a1 b1 c1; "
		"refused 808 d1",
		"has 3 servers with clients, and may have no more than it leaves to other users"},

	/* ---- the rate of starts */
	{"an account starts ten servers at once", TEN_STARTS,
		"S1..S10 starting; waiting a1 b1 c1 d1 e1 f1 g1 h1 i1 j1", NULL},
	{"... and then one each second", TEN_STARTS " k1",
		"S1..S10 starting; waiting a1 b1 c1 d1 e1 f1 g1 h1 i1 j1 k1", NULL},
	{"... after that second", TEN_STARTS " k1 l1 1s",
		"S1..S11 starting; waiting a1 b1 c1 d1 e1 f1 g1 h1 i1 j1 k1 l1", NULL},
	{"... which is no delay for others", TEN_STARTS " k1 B1",
		"S1..S11 starting; waiting a1 b1 c1 d1 e1 f1 g1 h1 i1 j1 k1 B1", NULL},
	{"ten seconds later it starts ten again", TEN_STARTS " 10s k1 l1 m1",
		"S1..S13 starting; waiting a1 b1 c1 d1 e1 f1 g1 h1 i1 j1 k1 l1 m1", NULL},

	/* ---- when the daemon quits */
	{"no server starts while the daemon quits", "A1 A2 S1+ [quit] B1",
		"S1 of A stopping: A1 A2; refused 805 B1; [waits]",
		"The MPS daemon is quitting: start it again when its clients have ended (2 now)"},
	{"... nor for clients that wait", "A1 S1+ B1 [quit]",
		"S1 of A stopping: A1; refused 805 B1; [waits]", "The MPS daemon is quitting"},
};

int main(void)
{
	return scene_run_rows("start", rows, ARRAY_SIZE(rows));
}
