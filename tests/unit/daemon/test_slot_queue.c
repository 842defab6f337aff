/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Who waits for a server, and how the wait ends (daemon/server/slot_queue.c, daemon.c).
 */

#include "base.h"
#include "scene.h"

static const struct scene_row rows[] = {
	/* ---- clients */
	{"a client that leaves is not served", "A1 A2 A1- S1+", "S1 of A: A2", NULL},
	{"a client waits 58 s", "deaf=1 A1 S1:hello 57s", "S2 of A starting; waiting A1", NULL},
	{"... and then gets an error", "A1 59s", "S2 of A starting; refused 807 A1",
		"was not ready within 58 s"},
	{"... of its own time", "A1 30s A2 29s", "S2 of A starting; waiting A2; refused 807 A1",
		NULL},
	{"a server with a fault takes no clients", "A1 S1+ S1:fault A2",
		"S1 of A faulty: A1; waiting A2", "push client to pending list"},
	{"... who get the next server", "A1 S1+ S1:fault A2 S1:crash",
		"S2 of A starting; waiting A2; closed A1", NULL},
	{"... within its grace and five seconds", "A1 S1+ S1:fault A2 16s",
		"S2 of A starting; waiting A2; closed A1", "did not end after its fault in time"},
	{"... and not sooner", "A1 S1+ S1:fault A2 14s", "S1 of A faulty: A1; waiting A2", NULL},
	{"a server that ends takes no clients", "A1 S1+ [shutdown_server S1] A2",
		"S1 of A stopping: A1; waiting A2; [done]", NULL},
	{"... who get the next server", "A1 S1+ [shutdown_server S1] A2 A1-",
		"S2 of A starting; waiting A2; [done]", NULL},
	{"... or an error", "A1 S1+ [shutdown_server S1] A2 59s",
		"S1 of A stopping: A1; refused 807 A2; [done]",
		"is STOPPING and accepts no client until its 1 clients have exited"},
	{"a server that was asked to end stays so, whatever it says",
		"A1 S1+ [shutdown_server S1] S1:mode A2",
		"S1 of A stopping: A1; waiting A2; [done]", NULL},
	{"a server that was asked to end may take its time while it has clients",
		"A1 S1+ [shutdown_server S1] 900s", "S1 of A stopping: A1; [done]", NULL},
	{"... but not by force", "A1 S1+ [shutdown_server S1 -f]", "closed A1; [done]",
		"not waiting for its clients"},
	{"... or with none", "A1 S1+ S1:busy A1- [shutdown_server S1] 16s", "[done]",
		"did not end in time: sending SIGTERM"},
	{"... or not within its grace and five seconds",
		"A1 S1+ S1:busy A1- [shutdown_server S1] 14s", "S1 of A stopping; [done]", NULL},
	{"a server that is not ready ends by a signal", "A1 [shutdown_server S1]",
		"S2 of A starting; waiting A1; [done]", NULL},
	{"... or is killed two seconds later", "deaf=1 A1 [shutdown_server S1] 3s",
		"S2 of A starting; waiting A1; [done]", "ignores SIGTERM: sending SIGKILL"},

	{"a user ends its own server", "A1 S1+ A[shutdown_server S1 -f]", "closed A1; [done]",
		NULL},
	{"... and no one else's", "A1 S1+ B[shutdown_server S1 -f]", "S1 of A: A1; [failed]",
		"Operation not permitted: shutdown_server needs UID 0 or UID 1000"},
	{"... with -M none", "multi A1 S1+ A[shutdown_server S1 -f]", "S1 of N: A1; [failed]",
		"Operation not permitted"},

	/* ---- its connection */
	{"a server that has lost its connection takes no clients", "A1 S1+ S1:lost A2",
		"S1 of A starting: A1; waiting A2", "has lost its connection"},
	{"... until it connects again", "A1 S1+ S1:lost A2 S1+", "S1 of A: A1 A2",
		"is connected again"},
	{"a server of the previous daemon is awaited", "adopt=A A1", "S1 of A starting; waiting A1",
		"was started by the previous daemon"},
	{"... and serves", "adopt=A A1 S1+", "S1 of A: A1", "Adopted server"},
	{"... for its grace and five seconds", "adopt=A 16s A1", "S2 of A starting; waiting A1",
		"did not connect to the new daemon in time"},
	{"... each of its user", "adopt=A adopt=B S2+ B1", "S1 of A starting; S2 of B: B1", NULL},
	{"a daemon of a user adopts no server of others", "user adopt=B A1",
		"S1 probes; S2 of A starting; waiting A1", NULL},

	/* ---- start_server */
	{"start_server waits for the server", "[start_server -uid A]", "S1 of A starting; [waits]",
		NULL},
	{"... until it is ready", "[start_server -uid A] S1+", "S1 of A; [done]", NULL},
	{"... or has failed", "[start_server -uid A] S1:nouser", "[failed]",
		"exited with status 67"},
	{"... or for 58 s", "[start_server -uid A] 59s", "S2 of A starting; [failed]",
		"The server was not ready within 58 s"},
	{"... as others do, for the same server", "A1 [start_server -uid A] S1+",
		"S1 of A: A1; [done]", NULL},
	{"... and not if there is one", "A1 S1+ [start_server -uid A]", "S1 of A: A1; [done]",
		NULL},
	{"a user starts a server", "A[start_server -uid A] S1+", "S1 of A; [done]", NULL},
	{"... of no other user", "B[start_server -uid A]", "[failed]",
		"Operation not permitted: start_server needs UID 0 or UID 1000"},
	{"an operator that leaves does not end the server", "[start_server -uid A] [- S1+",
		"S1 of A; [closed]", NULL},
	{"a server without clients is idle once it is ready",
		"idle=2 [start_server -uid A] 1500ms S1+ 1500ms", "S1 of A; [done]", NULL},

	/* ---- quit */
	{"quit ends a daemon without servers", "[quit]", "[done]", NULL},
	{"quit waits for clients", "A1 S1+ [quit]", "S1 of A stopping: A1; [waits]", NULL},
	{"... until they leave", "A1 S1+ [quit] A1-", "[done]", NULL},
	{"... for any time", "A1 S1+ [quit] 900s", "S1 of A stopping: A1; [waits]", NULL},
	{"... but not those that wait themselves", "A1 [quit]", "refused 805 A1; [done]",
		"The MPS daemon is being stopped: start it again"},
	{"... nor commands that do", "[start_server -uid A] [quit]", "[failed]; [done]",
		"The MPS daemon is being stopped: start it again"},
	{"... nor for new ones", "A1 S1+ [quit] [start_server -uid B]",
		"S1 of A stopping: A1; [waits]; [failed]", "being stopped"},
	{"quit with a time waits until then", "A1 S1+ [quit -t 2] 1s",
		"S1 of A stopping: A1; [waits]", "quit command issued with timeout of 2"},
	{"... and not longer", "A1 S1+ [quit -t 2] 2s", "closed A1; [done]", NULL},
	{"... even if the operator leaves", "A1 S1+ [quit -t 2] [- 2s", "closed A1; [closed]",
		NULL},
	{"... which a second quit can shorten", "A1 S1+ [quit] [quit -t 0]", "closed A1; [done]*2",
		NULL},
	{"... and not lengthen", "A1 S1+ [quit -t 2] [quit -t 9] 3s", "closed A1; [done]*2", NULL},
	{"a server that does not end is sent signals", "deaf=1 A1 S1+ S1:busy [quit -t 0] 16s",
		"S1 of A stopping: A1; [waits]", "did not end in time: sending SIGTERM"},
	{"... until it does", "deaf=1 A1 S1+ S1:busy [quit -t 0] 18s", "closed A1; [done]",
		"ignores SIGTERM: sending SIGKILL"},
	{"an ordinary user cannot end the daemon", "A1 S1+ A[quit -t 0]", "S1 of A: A1; [failed]",
		"Operation not permitted: quit needs UID 0"},
	{"... with -M neither", "multi A1 S1+ A[quit -t 0]", "S1 of N: A1; [failed]",
		"Operation not permitted"},
	{"... except its own", "user A1 S1+ A[quit -t 0]", "closed A1; [done]", NULL},
	{"... and root may", "user A1 S1+ R[quit -t 0]", "closed A1; [done]", NULL},
};

int main(void)
{
	return scene_run_rows("slot_queue", rows, ARRAY_SIZE(rows));
}
