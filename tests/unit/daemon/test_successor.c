/* SPDX-License-Identifier: Apache-2.0 */

/*
 * restart_server: which of two servers has the clients, whichever ends or says what, and when
 * (daemon/server/successor.c).
 */

#include "base.h"
#include "scene.h"

#define ASKED "A1 A2 S1+ [restart_server S1]"
#define ORDERED ASKED " S2+"
/* The first server, which the previous daemon has started, is of an earlier build. */
#define UPGRADED "move build=2 adopt=A A1 S1+"

static const struct scene_row rows[] = {
	/* ---- the usual way */
	{"a successor starts beside the server", ASKED, "S1 of A: A1 A2; S2 of A starting; [waits]",
		NULL},
	{"... and has no client yet when it is ready", ORDERED, "S1 of A: A1 A2; S2 of A; [waits]",
		NULL},
	{"... until it says so", ORDERED " S2:has=S1", "S1 of A stopping; S2 of A: A1 A2; [done]",
		"has moved its 2 clients to server"},
	{"the old server ends", ORDERED " S2:has=S1 S1:exit", "S2 of A: A1 A2; [done]", NULL},
	{"... before the successor has said anything", ORDERED " S2:gets=S1 S1:exit S2:has=S1",
		"S2 of A: A1 A2; [done]", "has moved its 2 clients"},
	{"... and its end alone says nothing", ORDERED " S2:gets=S1 S1:exit [get_client_list S1]",
		"S1 of A starting; S2 of A: A1 A2; [waits]; [done]", NULL},
	{"the successor is the server now", ORDERED " S2:has=S1 S1:exit A3 [get_client_list S2]",
		"S2 of A: A1..A3; [done]*2", NULL},
	{"... whose clients can leave", ORDERED " S2:has=S1 S1:exit A1- A2- [get_server_list]",
		"S2 of A; [done]*2", NULL},
	{"... and be terminated", ORDERED " S2:has=S1 S1:exit [terminate_client S2 A1] S2:done=A1",
		"S2 of A: A1 A2, ending A1; [done]*2", NULL},
	{"... and is replaced if it crashes", ORDERED " S2:has=S1 S1:exit S2:crash A3 S3+",
		"S3 of A: A3; closed A1 A2; [done]", NULL},
	{"... and can be restarted", ORDERED " S2:has=S1 S1:exit [restart_server S2] S3+ S3:has=S2",
		"S2 of A stopping; S3 of A: A1 A2; [done]*2", NULL},
	{"a server without clients", "A1 S1+ A1- [restart_server S1] S2+ S2:has=S1 S1:exit A2",
		"S2 of A: A2; [done]", "has moved its 0 clients"},
	{"the commands about the server go with it",
		"A1 S1+ [set_active_thread_percentage S1 30] [restart_server S1] S2+ S2:has=S1 "
		"S1:exit [get_active_thread_percentage S2]",
		"S2 of A: A1; [done]*3", "30.0"},
	{"a client that is dropped ends with the server", ORDERED " S1:drops=A2 S2:has=S1 S1:exit",
		"S2 of A: A1; closed A2; [done]", "has moved its 1 clients"},

	{"a server that has a GPU for itself", "R1 S1+x [restart_server S1] S2+x S2:has=S1 S1:exit",
		"S2 of R: R1; [done]", "has moved its 1 clients"},

	/* ---- clients that come meanwhile */
	{"a new client waits", ASKED " A3", "S1 of A: A1 A2; S2 of A starting; waiting A3; [waits]",
		NULL},
	{"... also when the successor is ready", ORDERED " A3",
		"S1 of A: A1 A2; S2 of A; waiting A3; [waits]", NULL},
	{"... for the successor", ORDERED " A3 S2:has=S1",
		"S1 of A stopping; S2 of A: A1..A3; [done]", NULL},
	{"... or for the old server", ORDERED " A3 S1:keeps", "S1 of A: A1..A3; [failed]", NULL},
	{"a client on its way goes to the server before it is ordered",
		"A1 S1+ S1:sleep A2 [restart_server S1] S2+ S1:wake S2:has=S1",
		"S1 of A stopping; S2 of A: A1 A2; [done]", "moved its 2 clients"},

	/* ---- the clients stay */
	{"a server that keeps its clients goes on", ORDERED " S1:keeps=A2",
		"S1 of A: A1 A2; [failed]", "cannot move: it has compressed memory"},
	{"... and its successor ends", ORDERED " S2:busy S1:keeps=A2",
		"S1 of A: A1 A2; S2 of A stopping; [failed]", NULL},
	{"... also in the slot of a program that has ended",
		"A1!7 S1+ [restart_server S1] S2+ S2:busy S1:keeps A1- 12s",
		"S2 of A stopping; [failed]", NULL},
	{"... and can be asked again", ORDERED " S1:keeps [restart_server S1] S3+ S3:has=S1",
		"S1 of A stopping; S3 of A: A1 A2; [failed]; [done]", NULL},
	{"a successor that does not start", ASKED " S2:crash", "S1 of A: A1 A2; [failed]",
		"ended before it had them"},
	{"... or is of another build", ASKED " S2:other", "S1 of A: A1 A2; [failed]",
		"ended before it had them: mps-server has version"},
	{"... nor becomes ready", ASKED " 51s 3s", "S1 of A: A1 A2; [failed]",
		"ended before it had them"},
	{"a successor that ends before it has the clients", ORDERED " S2:crash",
		"S1 of A: A1 A2; [failed]", "ended before it had them"},
	{"... or says nothing", ORDERED " 71s 3s", "S1 of A: A1 A2; [failed]", NULL},
	{"both end: the clients are told", ORDERED " S1:crash S2:exit", "closed A1 A2; [failed]",
		NULL},
	{"... in the other order", ORDERED " S2:exit S1:crash", "closed A1 A2; [failed]", NULL},
	{"the server ends before it was ordered", ASKED " S1:crash", "closed A1 A2; [failed]",
		"has ended"},
	{"... and the next client gets another one", ASKED " S1:crash A3 1s S3+",
		"S3 of A: A3; closed A1 A2; [failed]", NULL},
	{"the server cannot be ordered", ASKED " S1:lost S2+", "S1 of A starting: A1 A2; [failed]",
		"cannot be told to move its clients"},
	{"a late word of the successor changes nothing", ORDERED " S2:busy S1:keeps S2:has=S1",
		"S1 of A; S2 of A stopping: A1 A2; [failed]", NULL},

	/* ---- other commands meanwhile */
	{"one restart at a time", ASKED " [restart_server S1]",
		"S1 of A: A1 A2; S2 of A starting; [waits]; [failed]", "is being restarted"},
	{"a successor cannot be restarted", ORDERED " [restart_server S2]",
		"S1 of A: A1 A2; S2 of A; [waits]; [failed]", "is being restarted"},
	{"the operator leaves, and the move goes on", ORDERED " [- S2:has=S1",
		"S1 of A stopping; S2 of A: A1 A2; [closed]", NULL},
	{"quit ends both", ORDERED " [quit -t 0]", "closed A1 A2; [failed]; [done]", NULL},
	{"a shutdown reaches the clients' new server",
		ORDERED " S1:sleep [shutdown_server S1 -f] S2:has=S1 S1:exit",
		"closed A1 A2; [done]*2", NULL},

	/* ---- after an upgrade */
	{"a server of an earlier build is restarted", "move build=2 adopt=A A1 S1+",
		"S1 of A: A1; S2 of A starting",
		"of build 0000000000000001, and 0000000000000002 is installed"},
	{"... and its clients move", UPGRADED " S2+ S2:has=S1 S1:exit", "S2 of A: A1",
		"has moved its 1 clients to server"},
	{"... into a server that this daemon has started", UPGRADED " S2+ S2:has=S1 S1:exit 5000s",
		"S2 of A: A1", NULL},
	{"a server of the same build stays", "move build=1 adopt=A A1 S1+", "S1 of A: A1", NULL},
	{"... and if the installed build is not known", "adopt=A A1 S1+", "S1 of A: A1", NULL},
	{"... and one that this daemon has started", "move build=2 A1 S1+", "S1 of A: A1", NULL},
	{"... and if nobody has asked for moves", "build=2 adopt=A A1 S1+ [ps] 5000s",
		"S1 of A: A1; [done]", "restart_server would move its clients"},
	{"one after the other", "move build=2 adopt=A adopt=B S1+ S2+",
		"S1 of A; S2 of B; S3 of A starting", NULL},
	{"... also if the first one fails", "move build=2 adopt=A adopt=B S1+ S2+ S3:crash",
		"S1 of A; S2 of B; S4 of B starting", NULL},
	{"clients that cannot move stay", UPGRADED " S2+ S1:keeps=A1 40s", "S1 of A: A1",
		"keeps its clients: client"},
	{"... and ps says so", UPGRADED " S2+ S1:keeps=A1 [ps]", "S1 of A: A1; [done]",
		"of an earlier build: Server "},
	{"... and the daemon tries again", UPGRADED " S2+ S1:keeps=A1 72s",
		"S1 of A: A1; S3 of A starting", NULL},
	{"... later each time", UPGRADED " S2+ S1:keeps=A1 72s S3+ S1:keeps=A1 72s", "S1 of A: A1",
		NULL},
	{"... or when that client has ended", UPGRADED " A2 S2+ S1:keeps=A1 A1- 22s",
		"S1 of A: A2; S3 of A starting", NULL},
	{"a server of another version stays with its clients",
		"move build=2 adopt=A S1:busy S1:other A1 [ps]",
		"S1 probes; S2 of A starting; waiting A1; [done]",
		"of another version: it works for its clients"},

	/* ---- who may */
	{"a user restarts its own server", "A1 S1+ A[restart_server S1]",
		"S1 of A: A1; S2 of A starting; [waits]", NULL},
	{"... and no one else's", "A1 S1+ B[restart_server S1]", "S1 of A: A1; [failed]",
		"Operation not permitted"},
	{"a server that starts", "A1 [restart_server S1]", "S1 of A starting; waiting A1; [failed]",
		"only an ACTIVE server"},
	{"a server that is not there", "A1 S1+ [restart_server 77]", "S1 of A: A1; [failed]",
		"not found"},
	{"a time that is none", "A1 S1+ [restart_server S1 -t 0]", "S1 of A: A1; [failed]",
		"is not a number of seconds from 1 to 3600"},
	{"a word that is none", "A1 S1+ [restart_server S1 now]", "S1 of A: A1; [failed]",
		"Usage: "},
};

int main(void)
{
	return scene_run_rows("successor", rows, ARRAY_SIZE(rows));
}
