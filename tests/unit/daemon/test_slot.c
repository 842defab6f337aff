/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which server serves a client (daemon/state/slot.c), and how it gets there
 * (daemon/server/clients.c).
 */

#include "base.h"
#include "scene.h"

#define EIGHT_PROGRAMS "A1!1 A2!2 A3!3 A4!4 A5!5 A6!6 A7!7 A8!8"

static const struct scene_row rows[] = {
	/* ---- one for a user */
	{"programs of a user share a server", "A1:7 A2:8 S1+", "S1 of A: A1 A2", NULL},
	{"users do not", "A1:7 B1:7 S1+ S2+", "S1 of A: A1; S2 of B: B1", NULL},
	{"subordinate UIDs are users of their own", "A1 a1 S1+ S2+", "S1 of A: A1; S2 of a: a1",
		NULL},
	{"root is a user like others", "R1 A1 S1+ S2+", "S1 of R: R1; S2 of A: A1", NULL},
	{"a server stays without clients", "A1 S1+ A1- 60s", "S1 of A", NULL},
	{"... for an hour", "A1 S1+ A1- 3500s A2", "S1 of A: A2", NULL},
	{"... which MPS_IDLE_S shortens", "idle=1 A1 S1+ A1- 1500ms", "",
		"has had no clients for 1 s (MPS_IDLE_S)"},
	{"... and not while it has clients", "idle=1 A1 S1+ 10s", "S1 of A: A1", NULL},
	{"... from the last client on", "idle=2 A1 A2 S1+ A1- 3s A2- 1500ms", "S1 of A", NULL},
	{"... and 0 switches off", "idle=0 A1 S1+ A1- 9000s", "S1 of A", NULL},
	{"after it the next client gets another server", "idle=1 A1 S1+ A1- 2s A2",
		"S2 of A starting; waiting A2", NULL},

	/* ---- isolated programs */
	{"an isolated program has a server of its own", "A1 A2!7 S1+ S2+",
		"S1 of A: A1; S2 of A: A2",
		"gets a server of its own: its environment sets MPS_ISOLATE"},
	{"... which its processes share", "A1!7 A2!7 S1+", "S1 of A: A1 A2", NULL},
	{"... and another isolated program does not", "A1!7 A2!8 S1+ S2+",
		"S1 of A: A1; S2 of A: A2", NULL},
	{"... nor the program without MPS_ISOLATE", "A1!7 A2:7 S1+ S2+", "S1 of A: A1; S2 of A: A2",
		NULL},
	{"... nor the program of another user", "A1!7 B1!7 S1+ S2+", "S1 of A: A1; S2 of B: B1",
		NULL},
	{"its server ends after ten seconds without clients", "A1!7 S1+ A1- 25s", "",
		"(the server of an isolated program)"},
	{"... and not before", "A1!7 S1+ A1- 9s", "S1 of A", NULL},
	{"... even where others stay", "idle=0 A1!7 S1+ A1- 25s", "", NULL},
	{"... and sooner where others do", "idle=1 A1!7 S1+ A1- 2s", "", NULL},
	{"an account has eight isolated programs", EIGHT_PROGRAMS " A9!9",
		"S1..S8 starting; waiting A1..A8; refused 808 A9", "has 8 isolated programs"},
	{"... with its subordinate UIDs", EIGHT_PROGRAMS " a1!9",
		"S1..S8 starting; waiting A1..A8; refused 808 a1",
		"UID 1000 with its subordinate UIDs has 8 isolated programs"},
	{"... and more processes of them", EIGHT_PROGRAMS " A9!8",
		"S1..S8 starting; waiting A1..A9", NULL},
	{"... and programs that share a server", EIGHT_PROGRAMS " A9",
		"S1..S9 starting; waiting A1..A9", NULL},
	{"... and other users have theirs", EIGHT_PROGRAMS " B1!1",
		"S1..S9 starting; waiting A1..A8 B1", NULL},
	{"a server that has ended leaves its place", EIGHT_PROGRAMS " S1+ A1- 25s A9!9",
		"S2..S9 starting; waiting A2..A9", NULL},

	/* ---- one server for all */
	{"with -M one server serves all", "multi A1 B1 R1 S1+", "S1 of N: A1 B1 R1", NULL},
	{"... subordinate UIDs, too", "multi A1 a1 S1+", "S1 of N: A1 a1", NULL},
	{"... but for isolated programs", "multi A1 B1!7 S1+ S2+", "S1 of N: A1; S2 of N: B1",
		NULL},
	{"... each of its user", "multi A1!7 B1!7 S1+ S2+", "S1 of N: A1; S2 of N: B1", NULL},

	/* ---- the way to the server */
	{"a server is handed one client at a time", "A1 S1+ S1:sleep A2 A3",
		"S1 of A: A1; waiting A2 A3", NULL},
	{"... and gets them all", "A1 S1+ S1:sleep A2 A3 S1:wake 100ms", "S1 of A: A1..A3", NULL},
	{"a client that the server has not read gets the next server",
		"A1 S1+ S1:sleep A2 A3 S1:crash", "S2 of A starting; waiting A2 A3; closed A1",
		"did not reach its server"},
	{"... even if the server ends as it was asked to",
		"A1 S1+ S1:sleep A2 [shutdown_server S1] S1:exit",
		"S2 of A starting; waiting A2; closed A1; [done]", NULL},
	{"a server that reads nothing is replaced", "A1 S1+ S1:sleep A2 16s",
		"S2 of A starting; waiting A2; closed A1", "has not accepted client"},
	{"... after its grace and five seconds", "A1 S1+ S1:sleep A2 14s",
		"S1 of A: A1; waiting A2", NULL},
	{"a client that leaves on its way is nobody's", "A1 S1+ S1:sleep A2 A2- S1:crash A3",
		"S2 of A starting; waiting A3; closed A1", NULL},

	/* ---- how many clients */
	{"a process has sixteen connections", "A1*17",
		"S1 of A starting; waiting A1..A16; refused 808 A17",
		"already has 16 client connections: a program needs one"},
	{"... in the server, too",
		"A1 S1+ A2=A1 A3=A1 A4=A1 A5=A1 A6=A1 A7=A1 A8=A1 A9=A1 A10=A1 "
		"A11=A1 A12=A1 A13=A1 A14=A1 A15=A1 A16=A1 A17=A1",
		"S1 of A: A1..A16; refused 808 A17", NULL},
	{"... until one ends", "A1*16 S1+ A1- A17=A2", "S1 of A: A2..A17", NULL},
	{"... while other processes have theirs", "A1*16 A17", "S1 of A starting; waiting A1..A17",
		NULL},
	{"processes that the daemon cannot see are not counted", "A1..A17~",
		"S1 of A starting; waiting A1..A17", NULL},
	{"a server has 1024 clients", "A1..A1025",
		"S1 of A starting; waiting A1..A1024; refused 808 A1025",
		"has 1024 clients, which is the maximum"},
	{"with -M a user leaves as many places as it takes", "multi A1..A513 B1",
		"S1 of N starting; waiting A1..A512 B1; refused 808 A513", NULL},
};

int main(void)
{
	return scene_run_rows("slot", rows, ARRAY_SIZE(rows));
}
