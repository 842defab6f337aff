/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands of protocol 3 (daemon/command/module*.c): who sees what, and what is refused.
 */

#include "base.h"
#include "scene.h"

static const struct scene_row rows[] = {
	/* ---- the grammar */
	{"a module alone lists its verbs", "[server]", "[done]", "server get NAME FIELD"},
	{"... as help does", "[server help]", "[done]", "server list [NAME] [--format=FORMAT]"},
	{"... and --help", "[client --help]", "[done]", "client terminate PID"},
	{"a verb has a help of its own", "[device list --help]", "[done]", "list the GPUs"},
	{"... which does nothing", "A1 S1+ [client terminate help]", "S1 of A: A1; [done]", NULL},
	{"an unknown verb is refused with those that exist", "[client kill 5]", "[failed]",
		"Unknown verb \"kill\" of client, which has: list, get, terminate"},
	{"a module is no command of protocol 2", "[namespaces list]", "[failed]",
		"Unknown command \"namespaces\""},
	{"an unknown option is refused with the usage", "[server list --all]", "[failed]",
		"Unknown option \"--all\": server list [NAME] [--format=FORMAT]"},
	{"too few words are", "[server get]", "[failed]", "Usage: server get NAME FIELD"},
	{"too many words are", "[client list 7]", "[failed]", "Usage: client list"},
	{"a format that does not exist is", "[server list --format=json]", "[failed]",
		"\"json\" is not a format: --format takes table, csv or csv,noheader"},
	{"a key may do without dashes", "A1 S1+ [client list server=uid_1000 format=csv]",
		"S1 of A: A1; [done]", "pid,server,device,maws-ns,cmd"},

	/* ---- servers */
	{"no server, an empty list", "[server list]", "[done]",
		"NAME  UID  PID  STATUS  PIPE DIRECTORY  ALLOWED DEVICES  CONTEXT IDS"},
	{"the server of a user has the user's name", "A1 S1+ [server list --format=csv,noheader]",
		"S1 of A: A1; [done]", "uid_1000,1000,"},
	{"... and can be chosen", "A1 S1+ [server list uid_1000 --format=csv]",
		"S1 of A: A1; [done]", "name,uid,pid,status,pipe-directory"},
	{"one that does not exist cannot", "A1 S1+ [server list training]", "S1 of A: A1; [failed]",
		"Server 'training' not found"},
	{"a server that starts says so", "A1 [server get uid_1000 status]",
		"S1 of A starting; waiting A1; [done]", "Initializing"},
	{"... and when it is ready", "A1 S1+ [server get uid_1000 status]", "S1 of A: A1; [done]",
		"Ready"},
	{"... and when it has had a fault", "A1 S1+ S1:fault [server get uid_1000 status]",
		"S1 of A faulty: A1; [done]", "Fault"},
	{"a field may have _ for -", "A1 S1+ [server get uid_1000 pipe_directory]",
		"S1 of A: A1; [done]", NULL},
	{"an unknown field is refused with those that exist", "A1 S1+ [server get uid_1000 color]",
		"S1 of A: A1; [failed]",
		"the fields are name, uid, pid, status, pipe-directory, allowed-devices"},
	{"an isolated program's server has a name",
		"A1!7 S1+ [server get uid_1000_program_00000007 uid]", "S1 of A: A1; [done]",
		"1000"},

	/* ---- users see their own */
	{"a user sees the own server", "A1 S1+ A[server list uid_1000]", "S1 of A: A1; [done]",
		NULL},
	{"... and no other user's", "A1 S1+ B[server list uid_1000]", "S1 of A: A1; [failed]",
		"Server 'uid_1000' not found"},
	{"... nor its clients", "A1 S1+ B[client get A1 cmd]", "S1 of A: A1; [failed]",
		"not found: see client list"},
	{"... nor ends them", "A1 S1+ B[client terminate A1]", "S1 of A: A1; [failed]",
		"not found: see client list"},

	/* ---- clients */
	{"a client is named by its PID alone", "A1 B1 S1+ S2+ [client get B1 server]",
		"S1 of A: A1; S2 of B: B1; [done]", "uid_1001"},
	{"... and by its program", "A1 S1+ [client get A1 cmd]", "S1 of A: A1; [done]", "A1"},
	{"... and its namespace", "A1 S1+ [client get A1 maws_ns]", "S1 of A: A1; [done]",
		"uid_1000/default (0)"},
	{"0 is no client", "A1~ S1+ [client get 0 cmd]", "S1 of A: A1; [failed]",
		"Client 0 not found"},
	{"a client is ended", "A1 A2 S1+ [client terminate A2] S1:done=A2",
		"S1 of A: A1 A2, ending A2; [done]", NULL},
	{"... by its user", "A1 S1+ A[client terminate A1] S1:done=A1",
		"S1 of A: A1, ending A1; [done]", NULL},

	/* ---- devices */
	{"the GPUs of a server are listed when the machine's are known",
		"A1 S1+ [device list --server=uid_1000 --format=csv] S2:gpu", "S1 of A: A1; [done]",
		"ordinal,server,pci-id,device-uuid,name,total-sms,total-chunks,attributes"},
	{"... of no server that does not exist", "[device list --server=x] S1:gpu", "[failed]",
		"Server 'x' not found"},
};

int main(void)
{
	return scene_run_rows("modules", rows, ARRAY_SIZE(rows));
}
