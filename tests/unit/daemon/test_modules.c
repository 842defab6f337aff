/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands of protocol 3 (daemon/command/module*.c): who sees what, and what is refused.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base.h"
#include "scene.h"

#define POOL "[server create pool] S1:gpu S2+"
#define SMALL " [namespace create small --server=pool]"

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
	{"too few words are", "[server get]", "[failed]",
		"Too few words. Usage: server get NAME FIELD"},
	{"too many words are", "[client list 7]", "[failed]",
		"\"7\" is not expected. Usage: client list"},
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

	/* ---- named servers */
	{"a named server starts at once", POOL, "S2 of R; [done]", "Adding server 'pool'"},
	{"... and its creation waits for that", "[server create pool] S1:gpu",
		"S2 of R starting; [waits]", NULL},
	{"... and fails with it", "[server create pool] S1:gpu S2:nouser", "[failed]",
		"Server 'pool' is deleted, as it could not start"},
	{"... after which it does not exist",
		"[server create pool] S1:gpu S2:nouser [server list pool]", "[failed]*2",
		"Server 'pool' not found"},
	{"an operator that leaves leaves no server", "nofork=2 [server create pool] S1:gpu [- 1s",
		"[closed]", NULL},
	{"several run at once", POOL " [server create mine --uid=1000] S3+",
		"S2 of R; S3 of A; [done]*2", NULL},
	{"... beside that of the user", POOL " R1 S3+", "S2 of R; S3 of R: R1; [done]", NULL},
	{"clients in its directory are its clients", POOL " R1/pool/default R2/pool/default",
		"S2 of R: R1 R2; [done]", NULL},
	{"... and no other user's", POOL " A1/pool/default", "S2 of R; refused 800 A1; [done]",
		"The namespace pool/default is of a server of UID 0, but this client runs as UID "
		"1000"},
	{"... and not root, if it is a user's",
		"[server create mine --uid=1000] S1:gpu S2+ R1/mine/default",
		"S2 of A; refused 800 R1; [done]", NULL},
	{"... and every user's with -M", "multi [server create pool] S1:gpu S2+ A1/pool/default",
		"S2 of N: A1; [done]", "Adding server 'pool' [multiuser enabled]"},
	{"a namespace that is gone refuses clients", POOL " R1/pool/none",
		"S2 of R; refused 805 R1; [done]",
		"The namespace of this CUDA_MPS_PIPE_DIRECTORY has been deleted"},
	{"MPS_GROUP does not name a namespace", POOL " R1@pool/default",
		"S2 of R; refused 800 R1; [done]", "names a namespace"},
	{"a named server stays without clients", "idle=1 " POOL " R1/pool/default R1- 9s",
		"S2 of R; [done]", NULL},
	{"... and starts again for its next client", POOL " S2:crash R1/pool/default S3+",
		"S3 of R: R1; [done]", NULL},
	{"... and is stopped until then", POOL " S2:crash [server get pool status]", "[done]*2",
		"Stopped"},
	{"a name is taken once", POOL " [server create pool]", "S2 of R; [done]; [failed]",
		"Server 'pool' already exists"},
	{"a name is a name", "[server create Pool-1] S1:gpu", "[failed]",
		"\"Pool-1\" is not a name of a server"},
	{"... and none of the daemon's files", "[server create control_x] S1:gpu", "[failed]",
		"The name control_x is taken by the daemon"},
	{"... nor of a user's server", "[server create uid_1000] S1:gpu", "[failed]",
		"is taken by the daemon"},
	{"--uid alone starts the server of a user", "[server create --uid=1000] S1:gpu S2+ A1",
		"S2 of A: A1; [done]", NULL},
	{"a server needs a name or a user", "[server create] S1:gpu", "[failed]",
		"server create needs a NAME or --uid=UID"},
	{"a GPU that does not exist fails at once",
		"[server create pool --allowed-devices=0,1] S1:gpu", "[failed]",
		"Device \"1\" not found: the devices are 0 (0000:01:00.0"},
	{"... and a GPU that is named twice", "[server create pool allowed_devices=0,0] S1:gpu",
		"[failed]", "twice"},
	{"GPUs are listed by their UUIDs",
		"[server create pool --allowed-devices=0] S1:gpu S2+ [server get pool "
		"allowed-devices]",
		"S2 of R; [done]*2", "GPU-01000000-0000-0000-0000-000000000000"},
	{"a user creates the own", "A[server create mine] S1:gpu S2+", "S2 of A; [done]", NULL},
	{"... and no other user's", "A[server create mine --uid=1001] S1:gpu", "[failed]",
		"Operation not permitted: server create needs UID 0 or UID 1001"},
	{"... nor any with -M", "multi A[server create mine] S1:gpu", "[failed]",
		"Operation not permitted"},
	{"... nor another user's name with -M", "multi [server create pool --uid=5] S1:gpu",
		"[failed]", "leave --uid out"},
	{"a user sees and changes no named server of others", POOL " A[server delete pool]",
		"S2 of R; [done]; [failed]", "Server 'pool' not found"},

	{"the server of a user has no limits of its own",
		"A1 S1+ [server set uid_1000 --client-priority=1] S2:gpu", "S1 of A: A1; [failed]",
		"uid_1000 is the server of a user, and has no namespace default: [user NAME]"},
	{"the owner does not change", POOL " [server set pool --uid=1000]",
		"S2 of R; [done]; [failed]",
		"The owner of a server does not change: delete the server, and create it with "
		"--uid=1000"},
	{"... but may be said", POOL " [server set pool --uid=0]", "S2 of R; [done]*2", NULL},
	{"there are no locality domains", "[server create pool --locality-domains=true] S1:gpu",
		"[failed]", "--locality-domains cannot be true"},
	{"... also later", POOL " [server set pool locality_domains=true]",
		"S2 of R; [done]; [failed]", "Partitions divide their SMs (sm-partition create)"},
	{"... which may be said",
		"[server create pool --locality-domains=false] S1:gpu S2+ "
		"[server set pool --locality-domains=false]",
		"S2 of R; [done]*2", NULL},
	{"time slices are the driver's", "[compute-policy set]", "[failed]",
		"Unknown command \"compute-policy\""},

	/* ---- features */
	{"both features are on", "[feature describe --format=csv,noheader]", "[done]",
		"memacct,enabled (default),memacct,-"},
	{"... with titles", "[feature describe memacct]", "[done]",
		"FEATURE  STATE              MODULE   COVERS"},
	{"one goes off", "[feature disable memacct] [feature describe memacct format=csv]",
		"[done]*2", "memacct,disabled,memacct,-"},
	{"... and on", "[feature disable memacct] [feature enable memacct] [feature describe]",
		"[done]*3", "memacct        enabled (default)"},
	{"the other one does not", "[feature disable context-share]", "[failed]",
		"context-share cannot be false: clients of a server run in its context"},
	{"... and stays on", "[feature enable context-share]", "[done]", NULL},
	{"there are no others", "[feature enable color]", "[failed]",
		"Unknown feature \"color\": the features are memacct and context-share"},
	{"... to describe", "[feature describe color]", "[failed]", "Unknown feature \"color\""},
	{"they are the operator's", "A[feature disable memacct]", "[failed]",
		"Operation not permitted: feature disable needs UID 0"},
	{"programs of the daemon's socket have one server", "A1:1 A2:2 S1+", "S1 of A: A1 A2",
		NULL},
	{"... or one each", "[context-share set default_socket=off] A1:1 A2:2 A3:1 S1+ S2+",
		"S1 of A: A1 A3; S2 of A: A2; [done]", NULL},
	{"... but not in the directory of a server",
		POOL " [context-share set default_socket=off] R1/pool/default R2/pool/default",
		"S2 of R: R1 R2; [done]*2", NULL},
	{"... until it is on again",
		"[context-share set default_socket=off] [context-share set default_socket=on] A1:1 "
		"A2:2 S1+",
		"S1 of A: A1 A2; [done]*2", NULL},
	{"it is described",
		"[context-share set default_socket=off] [context-share describe format=csv]",
		"[done]*2", "default_socket,off"},
	{"it takes on and off", "[context-share set default_socket=no]", "[failed]",
		"context-share set needs default_socket=on or default_socket=off"},
	{"it is the operator's", "A[context-share set default_socket=off]", "[failed]",
		"Operation not permitted: context-share set needs UID 0"},

	/* ---- their end */
	{"a named server ends", POOL " [server delete pool]", "[done]*2",
		"Server 'pool' is deleted"},
	{"... not with clients", POOL " R1/pool/default [server delete pool]",
		"S2 of R: R1; [done]; [failed]",
		"Server 'pool' has 1 client: end them first, or use --force"},
	{"... but by force", POOL " R1/pool/default [server delete pool --force]",
		"closed R1; [done]*2", NULL},
	{"... also those that wait", POOL " S2:crash R1/pool/default [server delete pool --force]",
		"refused 805 R1; [done]*2", NULL},
	{"its name is free then", POOL " [server delete pool] [server create pool] S3+",
		"S3 of R; [done]*3", NULL},
	{"the daemon ends with it", POOL " [quit]", "[done]*2", NULL},

	/* ---- namespaces */
	{"clients of a namespace are in its group",
		POOL SMALL " R1/pool/small [client get R1 maws-ns]", "S2 of R: R1; [done]*3",
		"pool/small (0)"},
	{"... whose limits hold",
		POOL SMALL
		" [namespace set small --server=pool "
		"--pinned-memory-limit=20G --active-thread-percentage=30] [namespace list "
		"--format=csv,noheader]",
		"S2 of R; [done]*4", "small,pool,Ready,20G,30.00,0,"},
	{"... which the limits of the server do not touch",
		POOL SMALL
		" [server set pool --active-thread-percentage=50] [namespace get small pool "
		"active_thread_percentage]",
		"S2 of R; [done]*4", "100.00"},
	{"... but those of default",
		POOL " [server set pool --active-thread-percentage=50] "
		     "[namespace get default pool active_thread_percentage]",
		"S2 of R; [done]*3", "50.00"},
	{"a value that is wrong changes nothing",
		POOL SMALL
		" [namespace set small --server=pool "
		"--active-thread-percentage=30 --client-priority=7] [namespace get small pool "
		"active-thread-percentage]",
		"S2 of R; [done]*2; [failed]; [done]", "100.00"},
	{"a namespace needs its server", POOL " [namespace create small]",
		"S2 of R; [done]; [failed]", "namespace create needs --server=SERVER"},
	{"... which exists", "[namespace create small --server=pool]", "[failed]",
		"Server 'pool' not found"},
	{"its name is a name", POOL " [namespace create Small --server=pool]",
		"S2 of R; [done]; [failed]", "\"Small\" is not a name of a namespace"},
	{"... and is taken once", POOL SMALL SMALL, "S2 of R; [done]*2; [failed]",
		"Namespace 'small' already exists"},
	{"... also by a group", POOL " [group create pool/small]" SMALL,
		"S2 of R; [done]*2; [failed]", "There is a group pool/small"},
	{"a group command changes it",
		POOL SMALL " [group set pool/small -priority 1] "
			   "[namespace get small pool client-priority]",
		"S2 of R; [done]*4", "1"},
	{"... and does not delete it", POOL SMALL " [group delete pool/small]",
		"S2 of R; [done]*2; [failed]", "is a namespace: namespace delete ends it"},
	{"a namespace ends", POOL SMALL " [namespace delete small --server=pool] R1/pool/small",
		"S2 of R; refused 805 R1; [done]*3", NULL},
	{"... not with clients", POOL SMALL " R1/pool/small [namespace delete small --server=pool]",
		"S2 of R: R1; [done]*2; [failed]", "Namespace 'small' has 1 client"},
	{"... but by force, when their work has ended",
		POOL SMALL " R1/pool/small [namespace delete small --server=pool --force] "
			   "[namespace list small]",
		"S2 of R: R1, ending R1; [done]*2; [waits]; [done]", NULL},
	{"... then it is gone",
		POOL SMALL " R1/pool/small [namespace delete small --server=pool --force] "
			   "S2:done=R1 [namespace list small]",
		"S2 of R: R1, ending R1; [done]*3; [failed]", "Namespace 'small' not found"},
	{"... or their server",
		POOL SMALL " R1/pool/small [namespace delete small --server=pool --force] S2:crash",
		"closed R1; [done]*3", NULL},
	{"... within a bounded time",
		POOL SMALL " R1/pool/small [namespace delete small --server=pool --force] 17s",
		"S2 of R: R1, ending R1; [done]*2; [failed]",
		"is deleted when their work has ended"},
	{"... and takes no clients meanwhile",
		POOL SMALL " R1/pool/small [namespace delete small --server=pool --force] "
			   "R2/pool/small",
		"S2 of R: R1, ending R1; refused 805 R2; [done]*2; [waits]", NULL},
	{"default ends with its server", POOL " [namespace delete default --server=pool]",
		"S2 of R; [done]; [failed]", "ends with its server only"},
	{"the server of a user has namespaces, too",
		"A1 S1+ A[namespace create small --server=uid_1000] A2/uid_1000/small",
		"S1 of A: A1 A2; [done]", NULL},
	/* ---- users see their own */
	{"a user sees the own server", "A1 S1+ A[server list uid_1000]", "S1 of A: A1; [done]",
		NULL},
	{"... and no other user's", "A1 S1+ B[server list uid_1000]", "S1 of A: A1; [failed]",
		"Server 'uid_1000' not found"},
	{"... nor its clients", "A1 S1+ B[client get A1 cmd]", "S1 of A: A1; [failed]",
		"not found: see client list"},
	{"... nor ends them", "A1 S1+ B[client terminate A1]", "S1 of A: A1; [failed]",
		"not found: see client list"},

	/* ---- the server of all users */
	{"with -M a user sees the server of all",
		"multi A1 S1+ B[server list --format=csv,noheader]", "S1 of N: A1; [done]",
		"uid_65534,65534,"},
	{"... and the own clients", "multi A1 B1 S1+ A[client get A1 server]",
		"S1 of N: A1 B1; [done]", "uid_65534"},
	{"... and no other user's", "multi A1 B1 S1+ A[client get B1 server]",
		"S1 of N: A1 B1; [failed]", "not found: see client list"},
	{"... in all lists",
		"multi A1 B1 S1+ A[client list --server=uid_65534 --format=csv,noheader]",
		"S1 of N: A1 B1; [done]", ",uid_65534,"},
	{"... and ends the own", "multi A1 S1+ A[client terminate A1] S1:done=A1",
		"S1 of N: A1, ending A1; [done]", NULL},
	{"... and sees the namespaces of the own clients",
		"multi " POOL SMALL " A1/pool/small A[namespace get small pool client-priority]",
		"S2 of N: A1; [done]*3", "0"},
	{"... and no others", "multi " POOL SMALL " A1/pool/small B[namespace list small]",
		"S2 of N: A1; [done]*2; [failed]", "Namespace 'small' not found"},
	{"... and changes nothing",
		"multi " POOL SMALL " A[namespace set small --server=pool --client-priority=1]",
		"S2 of N; [done]*2; [failed]",
		"Insufficient privileges for UID 1000. 'NAMESPACE SET' requires server owner."},
	{"... nor deletes it", "multi " POOL " A[server delete pool --force]",
		"S2 of N; [done]; [failed]",
		"Insufficient privileges for UID 1000. 'SERVER DELETE' requires server owner."},

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

/* A server that has a namespace learns of it, and nobody loses the limit. */
static void test_memacct(_unused_ void **state)
{
	const uint64_t limit = (uint64_t)1 << 30;

	scene_begin(
		POOL SMALL " [namespace set small --server=pool --soft-limit=1G] R1/pool/small");
	assert_int_equal(scene_limits("@pool/small")->soft[0], limit);
	scene_play("[feature disable memacct]");
	assert_int_equal(scene_limits("@pool/small")->soft[0], UINT64_MAX);
	scene_play("[feature enable memacct]");
	assert_int_equal(scene_limits("@pool/small")->soft[0], limit);
	scene_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_memacct)};

	return scene_run_rows("modules", rows, ARRAY_SIZE(rows)) +
	       cmocka_run_group_tests_name("modules and limits", tests, NULL, NULL);
}
