/* SPDX-License-Identifier: Apache-2.0 */

/*
 * suspend_client and resume_client: who may, what the servers are asked, and what the commands are
 * answered (daemon/watch/suspension.c).
 */

#include "base.h"
#include "scene.h"

#define ASKED "A1 S1+ [suspend_client A1]"
#define SUSPENDED ASKED " S1:rest=A1"

static const struct scene_row rows[] = {
	/* ---- what is asked */
	{"the server is asked to hold the client", ASKED, "S1 of A: A1, held A1; [waits]", NULL},
	{"... and no other one", "A1 A2 S1+ [suspend_client A2]",
		"S1 of A: A1 A2, held A2; [waits]", NULL},
	{"... all connections of that process", "A1*3 S1+ [suspend_client A1]",
		"S1 of A: A1..A3, held A1..A3; [waits]", NULL},
	{"... once", ASKED " S1:rest=A1 S1:sleep [suspend_client A1]",
		"S1 of A: A1, held A1; [done]*2", NULL},
	{"... when it reads", "A1 S1+ S1:sleep [suspend_client A1] S1:wake",
		"S1 of A: A1, held A1; [waits]", NULL},
	{"... even if the operator has left", "A1 S1+ S1:sleep [suspend_client A1] [- S1:wake",
		"S1 of A: A1, held A1; [closed]", NULL},
	{"a client that is on its way is held, too",
		"A1 S1+ S1:sleep A2 [suspend_client A2] S1:wake",
		"S1 of A: A1 A2, held A2; [waits]", NULL},
	{"a user's clients", "A1 A2 B1 S1+ S2+ [suspend_client -uid A]",
		"S1 of A: A1 A2, held A1 A2; S2 of B: B1; [waits]", NULL},
	{"... on all its servers", "A1 A2!7 S1+ S2+ [suspend_client -uid A]",
		"S1 of A: A1, held A1; S2 of A: A2, held A2; [waits]", NULL},
	{"a group's clients, of all users",
		"[group create team] A1@team A2 B1@team S1+ S2+ [suspend_client -group team]",
		"S1 of A: A1 A2, held A1; S2 of B: B1, held B1; [done]; [waits]", NULL},
	{"a client that comes later goes on", "A1 S1+ [suspend_client -uid A] A2 S1:rest=A1",
		"S1 of A: A1 A2, held A1; [done]", NULL},
	{"... until the command comes again",
		"A1 S1+ [suspend_client -uid A] A2 S1:rest=A1 [suspend_client -uid A]",
		"S1 of A: A1 A2, held A1 A2; [done]; [waits]", NULL},
	{"resume ends it", SUSPENDED " [resume_client A1]", "S1 of A: A1; [done]; [waits]", NULL},
	{"a client that is not suspended is resumed", "A1 S1+ [resume_client A1]",
		"S1 of A: A1; [done]", "is resumed"},
	{"resume of a user resumes what was suspended one by one",
		"A1 A2 S1+ [suspend_client A1] S1:rest=A1 [resume_client -uid A] S1:resumed=A1",
		"S1 of A: A1 A2; [done]*2", NULL},
	{"the last order counts",
		"A1 S1+ S1:sleep [suspend_client A1] [resume_client A1] [suspend_client A1] "
		"S1:wake S1:rest=A1",
		"S1 of A: A1, held A1; [failed]*2; [done]", "was suspended meanwhile"},

	/* ---- the end */
	{"the command ends when the client is at rest", SUSPENDED, "S1 of A: A1, held A1; [done]",
		"is suspended"},
	{"... and not before", ASKED " S1:begun=A1", "S1 of A: A1, held A1; [waits]", NULL},
	{"... or its streams wait for it", ASKED " S1:blocked=A1", "S1 of A: A1, held A1; [done]",
		"a stream of it waits on the GPU"},
	{"... or it has left", ASKED " A1-", "S1 of A; [failed]",
		"The clients have ended meanwhile"},
	{"... or it is terminated", ASKED " [terminate_client S1 A1] S1:done=A1",
		"S1 of A: A1, ending A1, held A1; [failed]; [done]", NULL},
	{"all clients have to be", "A1 A2 S1+ [suspend_client -uid A] S1:rest=A1",
		"S1 of A: A1 A2, held A1 A2; [waits]", NULL},
	{"... one way or another", "A1 A2 S1+ [suspend_client -uid A] S1:rest=A1 A2-",
		"S1 of A: A1, held A1; [done]", NULL},
	{"... of all servers", "A1 A2!7 S1+ S2+ [suspend_client -uid A] S1:rest=A1 S2:rest=A2",
		"S1 of A: A1, held A1; S2 of A: A2, held A2; [done]", NULL},
	{"each command that waits ends", ASKED " [suspend_client -uid A] S1:rest=A1",
		"S1 of A: A1, held A1; [done]*2", NULL},
	{"a late report of an earlier order does not count",
		ASKED " S1:rest=A1 S1:sleep [resume_client A1] S1:rest=A1",
		"S1 of A: A1, held A1; [done]; [waits]", NULL},
	{"resume ends a suspension that waits", ASKED " [resume_client A1] S1:resumed=A1",
		"S1 of A: A1; [failed]; [done]", "was resumed meanwhile"},

	/* ---- what can come between */
	{"the work has ten seconds", ASKED " 9s", "S1 of A: A1, held A1; [waits]", NULL},
	{"... and no more", ASKED " 11s", "S1 of A: A1, held A1; [failed]",
		"is still at work: its further calls wait"},
	{"... or as many as the operator says", "A1 S1+ [suspend_client A1 -t 3] 4s",
		"S1 of A: A1, held A1; [failed]", "is still at work"},
	{"... and the client is suspended later", ASKED " 11s S1:rest=A1 [suspend_client A1]",
		"S1 of A: A1, held A1; [failed]; [done]", NULL},
	{"only those at work are named", "A1 A2 S1+ [suspend_client -uid A] S1:rest=A1 11s",
		"S1 of A: A1 A2, held A1 A2; [failed]", "is suspended"},
	{"a server that does not resume is an error", SUSPENDED " S1:sleep [resume_client A1] 11s",
		"S1 of A: A1, held A1; [done]; [failed]", "has not resumed client"},
	{"a server that ends is an error", ASKED " S1:crash", "closed A1; [failed]",
		"disconnected before it had replied"},
	{"... and one that loses its connection", ASKED " S1:lost",
		"S1 of A starting: A1, held A1; [failed]", "disconnected before"},
	{"... and cannot be asked", "A1 S1+ S1:lost [suspend_client A1]",
		"S1 of A starting: A1; [failed]", "has no connection to the daemon: try again"},
	{"the end of another server is none", "A1 B1 S1+ S2+ [suspend_client A1] S2:crash",
		"S1 of A: A1, held A1; closed B1; [waits]", NULL},
	{"a command whose connection is closed is not answered", ASKED " [- S1:rest=A1",
		"S1 of A: A1, held A1; [closed]", NULL},
	{"a server ends beside suspended clients", SUSPENDED " [shutdown_server S1 -f]",
		"closed A1; [done]*2", NULL},

	/* ---- who may */
	{"a user suspends its own clients", "A1 S1+ A[suspend_client A1]",
		"S1 of A: A1, held A1; [waits]", NULL},
	{"... and no one else's", "A1 S1+ B[suspend_client A1]", "S1 of A: A1; [failed]",
		"Operation not permitted"},
	{"... nor resumes them", SUSPENDED " B[resume_client A1]",
		"S1 of A: A1, held A1; [done]; [failed]", "Operation not permitted"},
	{"a user suspends itself", "A1 S1+ A[suspend_client -uid A]",
		"S1 of A: A1, held A1; [waits]", NULL},
	{"... and no other user", "A1 S1+ B[suspend_client -uid A]", "S1 of A: A1; [failed]",
		"Operation not permitted"},
	{"... nor a group of all users",
		"[group create team] A1@team S1+ A[suspend_client -group team]",
		"S1 of A: A1; [done]; [failed]", "Operation not permitted"},
	{"... but its own group",
		"[group create team -uid A] A1@team S1+ A[suspend_client -group team]",
		"S1 of A: A1, held A1; [done]; [waits]", NULL},
	{"with -M its own", "multi A1 B1 S1+ B[suspend_client B1]",
		"S1 of N: A1 B1, held B1; [waits]", NULL},
	{"... and no one else's", "multi A1 B1 S1+ A[suspend_client B1]",
		"S1 of N: A1 B1; [failed]", "Operation not permitted"},

	/* ---- what does not exist */
	{"a client that is not there", "A1 S1+ [suspend_client 77]", "S1 of A: A1; [failed]",
		"Client 77 not found"},
	{"a client that waits is not there", "A1 S1+ S1:sleep A2 A3 [suspend_client A3]",
		"S1 of A: A1; waiting A2 A3; [failed]", "not found"},
	{"a client that the daemon cannot see", "A1~ S1+ [suspend_client 0]",
		"S1 of A: A1; [failed]", "Client 0 not found"},
	{"a terminated client", "A1 S1+ [terminate_client S1 A1] [suspend_client A1]",
		"S1 of A: A1, ending A1; [waits]; [failed]", "not found"},
	{"a group that is not there", "A1 S1+ [suspend_client -group team]",
		"S1 of A: A1; [failed]", "Group team not found"},
	{"a group without clients", "[group create team] A1 S1+ [suspend_client -group team]",
		"S1 of A: A1; [done]; [failed]", "Group team has no client"},
	{"a user without clients", "A1 S1+ [suspend_client -uid B]", "S1 of A: A1; [failed]",
		"has no client"},
	{"a time that is none", "A1 S1+ [suspend_client A1 -t 0]", "S1 of A: A1; [failed]",
		"is not a number of seconds from 1 to 3600"},
	{"a word too many", "A1 S1+ [resume_client A1 now]", "S1 of A: A1; [failed]", "Usage: "},
};

int main(void)
{
	return scene_run_rows("suspension", rows, ARRAY_SIZE(rows));
}
