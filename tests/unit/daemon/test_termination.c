/* SPDX-License-Identifier: Apache-2.0 */

/*
 * terminate_client: who may, what the server is asked, and what the command is answered
 * (daemon/watch/termination.c).
 */

#include "base.h"
#include "scene.h"

#define ASKED "A1 S1+ [terminate_client S1 A1]"

static const struct scene_row rows[] = {
	/* ---- what is asked */
	{"the server is asked to end the client's work", ASKED, "S1 of A: A1, ending A1; [waits]",
		NULL},
	{"... of no other process", "A1 A2 S1+ [terminate_client S1 A2]",
		"S1 of A: A1 A2, ending A2; [waits]", NULL},
	{"... of all connections of that process", "A1*3 S1+ [terminate_client S1 A1]",
		"S1 of A: A1..A3, ending A1..A3; [waits]", NULL},
	{"... and of that server only", "A1 A2!7 S1+ S2+ [terminate_client S2 A2]",
		"S1 of A: A1; S2 of A: A2, ending A2; [waits]", NULL},
	{"... once", ASKED " [terminate_client S1 A1]", "S1 of A: A1, ending A1; [waits]*2", NULL},
	{"... when it reads", "A1 S1+ S1:sleep [terminate_client S1 A1] S1:wake",
		"S1 of A: A1, ending A1; [waits]", NULL},
	{"... even if the operator has left", "A1 S1+ S1:sleep [terminate_client S1 A1] [- S1:wake",
		"S1 of A: A1, ending A1; [closed]", NULL},
	{"a client that is on its way is asked for, too",
		"A1 S1+ S1:sleep A2 [terminate_client S1 A2] S1:wake",
		"S1 of A: A1 A2, ending A2; [waits]", NULL},
	{"a client that waits is no client of the server",
		"A1 S1+ S1:sleep A2 A3 [terminate_client S1 A3]",
		"S1 of A: A1; waiting A2 A3; [failed]", "201"},
	{"a client that comes later goes on", ASKED " A2=A1 S1:done=A1",
		"S1 of A: A1 A2, ending A1; [done]", NULL},

	/* ---- the end */
	{"the command ends when the work has", ASKED " S1:done=A1",
		"S1 of A: A1, ending A1; [done]", "0"},
	{"... or the client has left", ASKED " A1-", "S1 of A; [done]", "0"},
	{"... of all connections", "A1*2 S1+ [terminate_client S1 A1] S1:done=A1",
		"S1 of A: A1 A2, ending A1 A2; [waits]", NULL},
	{"... one way or another", "A1*2 S1+ [terminate_client S1 A1] S1:done=A1 A2-",
		"S1 of A: A1, ending A1; [done]", NULL},
	{"... and not when that of others has", "A1 A2 S1+ [terminate_client S1 A1] S1:done=A2",
		"S1 of A: A1 A2, ending A1; [waits]", NULL},
	{"each command that waits for it ends", ASKED " [terminate_client S1 A1] S1:done=A1",
		"S1 of A: A1, ending A1; [done]*2", NULL},
	{"commands for several clients end each for itself",
		"A1 A2 S1+ [terminate_client S1 A1] [terminate_client S1 A2] S1:done=A2",
		"S1 of A: A1 A2, ending A1 A2; [waits]; [done]", NULL},
	{"work that has ended does not end again", ASKED " S1:done=A1 [terminate_client S1 A1]",
		"S1 of A: A1, ending A1; [done]*2", NULL},
	{"an operator that leaves is not answered", ASKED " [- S1:done=A1",
		"S1 of A: A1, ending A1; [closed]", NULL},

	/* ---- what can come between */
	{"a command whose connection is closed is not answered",
		"conns=2 A1 S1+ A[terminate_client S1 A1]*2 S1:done=A1",
		"S1 of A: A1, ending A1; [closed]; [done]", "one more than the limit"},
	{"a server that ends is an error", ASKED " S1:crash", "closed A1; [failed]",
		"disconnected before it had ended the work of client"},
	{"... with its number", ASKED " S1:crash", "closed A1; [failed]", "806"},
	{"... even if its clients end with it", ASKED " S1:exit", "closed A1; [failed]", NULL},
	{"a server that loses its connection is, too", ASKED " S1:lost",
		"S1 of A starting: A1, ending A1; [failed]", "disconnected before"},
	{"... and cannot be asked", "A1 S1+ S1:lost [terminate_client S1 A1]",
		"S1 of A starting: A1; [failed]", "has no connection to the daemon: try again"},
	{"the server has its grace and six seconds", ASKED " 15s",
		"S1 of A: A1, ending A1; [waits]", NULL},
	{"... and no more", ASKED " 16s", "S1 of A: A1, ending A1; [failed]",
		"has not ended the work of client"},
	{"... and goes on", ASKED " 16s A2", "S1 of A: A1 A2, ending A1; [failed]", NULL},
	{"... until another command", ASKED " 16s [terminate_client S1 A1] S1:done=A1",
		"S1 of A: A1, ending A1; [failed]; [done]", NULL},
	{"a server that ends after its clients still does it",
		"A1 S1+ [shutdown_server S1] [terminate_client S1 A1]",
		"S1 of A stopping: A1, ending A1; [done]; [waits]", NULL},

	/* ---- who may */
	{"a user ends its own clients", "A1 S1+ A[terminate_client S1 A1]",
		"S1 of A: A1, ending A1; [waits]", NULL},
	{"... and no one else's", "A1 S1+ B[terminate_client S1 A1]", "S1 of A: A1; [failed]",
		"Operation not permitted"},
	{"... with -M neither", "multi A1 B1 S1+ A[terminate_client S1 B1]",
		"S1 of N: A1 B1; [failed]", "Operation not permitted"},
	{"... with -M its own", "multi A1 B1 S1+ B[terminate_client S1 B1]",
		"S1 of N: A1 B1, ending B1; [waits]", NULL},
	{"a process of several users is the server's",
		"multi A1 B1=A1 S1+ A[terminate_client S1 A1]", "S1 of N: A1 B1; [failed]",
		"Operation not permitted"},
	{"the user of that server ends all", "multi A1 B1 S1+ N[terminate_client S1 B1]",
		"S1 of N: A1 B1, ending B1; [waits]", NULL},

	/* ---- what does not exist */
	{"a server that is not there", "A1 S1+ [terminate_client 77 A1]", "S1 of A: A1; [failed]",
		"Server 77 not found!"},
	{"a client that is not there", "A1 S1+ [terminate_client S1 77]", "S1 of A: A1; [failed]",
		"201"},
	{"a client that has left", "A1 S1+ A2 A2- [terminate_client S1 A2]",
		"S1 of A: A1; [failed]", "201"},
	{"a client of another server", "A1 B1 S1+ S2+ [terminate_client S2 A1]",
		"S1 of A: A1; S2 of B: B1; [failed]", "201"},
	{"a client that the daemon cannot see", "A1~ S1+ [terminate_client S1 0]",
		"S1 of A: A1; [failed]", "201"},
	{"a word that is no number", "A1 S1+ [terminate_client S1 one]", "S1 of A: A1; [failed]",
		"201"},
};

int main(void)
{
	return scene_run_rows("termination", rows, ARRAY_SIZE(rows));
}
