/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCENE_H
#define SCENE_H

/*
 * Rules of the daemon as rows of a table: a script of events, and what it leads to. The daemon of
 * a row is the real one; its processes and its clock are simulated (tests/fuzz/fake_system.h), and
 * its peers are ends of socket pairs. So a row takes less than a millisecond, whatever time passes
 * in it.
 *
 * A script is a list of words. The first ones say what daemon it is:
 *
 *	user			of user A, not of root
 *	multi			-M: one server for all users, of user N
 *	max=3 idle=9		MPS_SERVERS_MAX, MPS_IDLE_S
 *	conns=6			all guests together may have 6 connections
 *	adopt=A			the previous daemon had a server of user A
 *	build=2			the installed servers are of build 2; those that connect are of
 build 1 *	move spare		MPS_MOVE_ON_UPGRADE, MPS_SPARE_SERVER
 *	nofork=1 deaf=1		server 1 cannot be started, ignores SIGTERM
 *
 * Then things happen. R is root, A to Q are users, and a to q are subordinate UIDs of A.
 *
 *	A1			client 1 of user A arrives
 *	A1:7 A1!7		... whose program is 7; with MPS_ISOLATE
 *	A1@team			... with MPS_GROUP=team
 *	A1/pool/small		... in the directory of that namespace
 *	A1%Aw A1/pool/small%Aw	... that names the partition Aw of the GPU
 *	A1..A9 A1*16 A9=A1	nine clients; sixteen clients of one process; one of A1's process
 *	A1~			arrives in a process that the daemon cannot see
 *	A1-			leaves
 *	S1+ S1+x		server 1 connects and is ready; one of its GPUs is EXCLUSIVE_PROCESS
 *	S1:mode S1:modex	it reports its GPUs again
 *	S1:hello		connects, and is not ready yet
 *	S1:other		connects, and is of another build
 *	S1:fault S1:fault=A1	reports a fault; the fault of a client
 *	S1:names=A1		reports who caused its fault
 *	S1:gives=A1:no_luck	... and why a client does not survive it: _ is a blank, ^ is ESC
 *	S1:done=A1		has ended the work of a client, as it was asked to
 *	S1:rest=A1		has suspended a client, as it was asked to, and that has no work
	S1:blocked=A1		... or has work that waits for the client
	S1:begun=A1		... or has not ended its work yet
	S1:resumed=A1		has resumed a client
	S1:exit S1:crash	its process ends with status 0; by a signal
 *	S1:nouser		... with the status of a user that does not exist
 *	S1:lost			its connection breaks
 *	S1:sleep S1:wake	it reads no frames meanwhile
 *	S1:busy			it ignores that it should end
 *	S1:print=word		it writes a line to its log
 *	S1:gpu S1:gpux		it is a probe, and finds a GPU
 *	250ms 5s		time passes
 *	[quit -t 5] A[quit]	root, or A, gives a command on a new connection
 *	[nope]*64		64 times
 *	[- [-1			the last, the first such connection hangs up
 *	A< A<60			connections of A that stay silent
 *	A"word			a connection of A that sends a part of a line
 *
 * In a command A stands for a UID, A1 and S1 stand for PIDs.
 *
 * A server that was asked to end does so when its clients have left, as the real one.
 *
 * The verdict lists the servers and their clients, then the other clients, then the commands:
 *
 *	S1 of A: A1..A3; S2 of B starting; waiting B1; turn C1; refused 808 D1; closed E1; [done]
 *
 * A client waits for its `turn' when it was told that another server has the GPUs. Several things
 * of one kind are shortened: S1..S9 starting, [done]*64, silent A*60.
 */

#include <stddef.h>

#include "frame.h"

struct scene_row {
	const char *rule, *script, *verdict;
	const char *says; /* NULL, or a part of a refusal, a reply or a line of control.log */
};

/* A test for each row, which has the name of its rule. Returns what main() returns. */
int scene_run_rows(const char *noun, const struct scene_row *rows, size_t n);

/* ---- for tables of other columns */

/* Starts the daemon of a script, and plays it. */
void scene_begin(const char *script);
void scene_play(const char *script);
void scene_end(void);

/* A variable of the next daemon's environment; NULL: not set. At first there is none. */
void scene_set_variable(const char *name, const char *value);

/* The configuration file of the next daemon; NULL: none. */
void scene_set_file(const char *text);

/* The length of the file's path, if the text begins with it; else 0. */
size_t scene_file_length(const char *text);

/* What there is now, as above. */
const char *scene_verdict(void);

/* How often refusals, replies and control.log have the text. */
unsigned scene_count_said(const char *text);

/* The reply to the last command. */
const char *scene_reply(void);

/* What a server was told last about the limits of a client "A1", or of a group "@g". */
const struct frame_limits *scene_limits(const char *name);

/* The daemon of the scene. */
struct daemon *scene_daemon(void);

#endif
