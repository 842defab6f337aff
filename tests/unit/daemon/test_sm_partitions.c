/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Partitions of SMs of protocol 3 (daemon/server/partition_choice.c, module_sm_partition*.c): what
 * is refused, and which chunks a client gets. The GPU has 16 chunks of 8 SMs, and 4 SMs more.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "scene.h"

#define POOL "[server create pool] S1:gpu S2+ "
#define SPACES "[namespace create small --server=pool] [namespace create large --server=pool] "
#define AT "--server=pool --device=0 "
#define CREATE(name, options) "[sm-partition create " name " " AT options "] "
#define BIND(name, space) "[sm-partition bind " name " " AT "--namespace=" space "] "
#define UNBIND(name, space) "[sm-partition unbind " name " " AT "--namespace=" space "] "
#define DELETE(name) "[sm-partition delete " name " " AT "] "
#define TWO CREATE("two", "--chunks=2")
#define THREE CREATE("three", "--chunks=3")
#define LIST "[sm-partition list --format=csv,noheader] "
#define UUID "GPU-01000000-0000-0000-0000-000000000000"

/* ---- what the commands answer */

static const struct scene_row rows[] = {
	{"a partition is made at once", POOL TWO, "S2 of R; [done]*2",
		"SM partition 'two' created on device " UUID " (sm-count=16)"},
	{"... and its ID printed", POOL TWO, "S2 of R; [done]*2",
		"CUDA_MPS_SM_PARTITION=" UUID "/Aw"},
	{"... also with the remaining SMs",
		POOL CREATE("two", "--chunks=2 --include-remainder=true"), "S2 of R; [done]*2",
		"(sm-count=20)"},
	{"... which one partition has",
		POOL CREATE("two", "--chunks=2 --include-remainder=true")
			CREATE("three", "--chunks=3 --include-remainder=true"),
		"S2 of R; [done]*2; [failed]", "has no remaining SMs for --include-remainder"},
	{"a server without a process has partitions, too", POOL "S2:crash " TWO LIST, "[done]*3",
		"pool," UUID ",two,2,16,false,configured," UUID "/Aw"},
	{"they are listed, and the rest", POOL TWO LIST, "S2 of R; [done]*3",
		"pool," UUID ",two,2,16,false,created," UUID "/Aw"},
	{"... behind them", POOL TWO LIST, "S2 of R; [done]*3",
		"pool," UUID ",-,14,116,true,unallocated,-"},
	{"titles have hyphens", POOL TWO "[sm-partition list]", "S2 of R; [done]*3",
		"SM-COUNT  INCLUDE-REMAINDER  STATUS"},
	{"--long says who has them",
		POOL SPACES TWO BIND("two", "small") "R1/pool/small [sm-partition list --long "
						     "--format=csv,noheader]",
		"S2 of R: R1; [done]*6", UUID "/Aw,0,false,1,pool/small"},
	{"a GPU without partitions has no rows", POOL LIST, "S2 of R; [done]*2", NULL},
	{"... but with --all", POOL "[sm-partition list --all --format=csv,noheader]",
		"S2 of R; [done]*2", "pool," UUID ",-,16,132,true,unallocated,-"},
	{"lspart has them, too", POOL TWO "[lspart]", "S2 of R; [done]*3", "Aw"},
	{"a partition ends", POOL TWO DELETE("two"), "S2 of R; [done]*3",
		"SM partition 'two' deleted from device " UUID},
	{"... and its name is free", POOL TWO DELETE("two") TWO, "S2 of R; [done]*4", NULL},
	{"... not with clients", POOL TWO "R1/pool/default%Aw " DELETE("two"),
		"S2 of R: R1; [done]*2; [failed]",
		"SM partition 'two' has 1 client: end them first"},
	{"... nor when it is bound", POOL SPACES TWO BIND("two", "small") DELETE("two"),
		"S2 of R; [done]*5; [failed]", "A namespace is bound to SM partition 'two'"},
	{"... but when the namespace is gone",
		POOL SPACES TWO BIND(
			"two", "small") "[namespace delete small --server=pool] " DELETE("two"),
		"S2 of R; [done]*7", NULL},
	{"it ends with its server", POOL TWO "[server delete pool] [server create pool] S3+ " TWO,
		"S3 of R; [done]*5", NULL},
	{"the server of a user has partitions, too",
		"A1 S1+ A1- A[sm-partition create two --server=uid_1000 --device=0 --chunks=2] "
		"S2:gpu",
		"S1 of A; [done]", "sm-count=16"},
	{"two servers divide a GPU without each other",
		POOL CREATE(
			"all", "--chunks=16") "[server create more] S3+ [sm-partition create all "
					      "--server=more --device=0 --chunks=16]",
		"S2 of R; S3 of R; [done]*4", NULL},

	/* ---- what is refused */
	{"too many chunks are refused", POOL TWO CREATE("x", "--chunks=15"),
		"S2 of R; [done]*2; [failed]",
		"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION: 14 of 16 chunks are free"},
	{"a name that is taken is", POOL TWO TWO, "S2 of R; [done]*2; [failed]",
		"SM partition 'two' already exists on device " UUID},
	{"... or none", POOL CREATE("Two", "--chunks=2"), "S2 of R; [done]; [failed]",
		"\"Two\" is not a name of an SM partition"},
	{"no chunks are", POOL CREATE("x", "--chunks=0"), "S2 of R; [done]; [failed]",
		"--chunks takes 1 to 16, and a chunk of this GPU has 8 SMs"},
	{"... or none said", POOL CREATE("x", ""), "S2 of R; [done]; [failed]",
		"sm-partition create needs --chunks=N, 1 to "},
	{"fewer at most than at least are", POOL CREATE("x", "--chunks=4 --max-chunks=3"),
		"S2 of R; [done]; [failed]", "--max-chunks=3 is less than --chunks=4"},
	{"a value that is no switch is", POOL CREATE("x", "--chunks=4 --shareable=yes"),
		"S2 of R; [done]; [failed]", "\"yes\" is neither: --shareable takes true or false"},
	{"a GPU that does not exist is",
		POOL "[sm-partition create x --server=pool --device=7 --chunks=2]",
		"S2 of R; [done]; [failed]", "Device \"7\" not found"},
	{"... or a server", POOL "[sm-partition create x --server=no --device=0 --chunks=2]",
		"S2 of R; [done]; [failed]", "Server 'no' not found"},
	{"... or is not said", POOL "[sm-partition create x --chunks=2]",
		"S2 of R; [done]; [failed]",
		"sm-partition create needs --server=SERVER and --device=DEVICE"},
	{"a GPU with clients on all SMs is not divided", POOL "R1/pool/default " TWO,
		"S2 of R: R1; [done]; [failed]",
		"Server 'pool' has 1 client, which may have all SMs of device " UUID},
	{"... but further, below clients on partitions", POOL TWO "R1/pool/default%Aw " THREE,
		"S2 of R: R1; [done]*3", NULL},
	{"another user divides nothing",
		"multi " POOL "A[sm-partition create two " AT "--chunks=2]",
		"S2 of N; [done]; [failed]",
		"Insufficient privileges for UID 1000. 'SM-PARTITION CREATE' requires server "
		"owner."},
	{"a partition that does not exist does not end", POOL DELETE("two"),
		"S2 of R; [done]; [failed]", "SM partition 'two' not found on device " UUID},
	{"a namespace has one partition of a GPU",
		POOL SPACES TWO THREE BIND("two", "small") BIND("three", "small"),
		"S2 of R; [done]*6; [failed]", "Namespace 'small' is bound to SM partition 'two'"},
	{"a partition has one namespace", POOL SPACES TWO BIND("two", "small") BIND("two", "large"),
		"S2 of R; [done]*5; [failed]",
		"is bound to another namespace, and was not created with --shareable=true"},
	{"... unless it is shareable",
		POOL SPACES CREATE("two", "--chunks=2 --shareable=true") BIND("two", "small")
			BIND("two", "large"),
		"S2 of R; [done]*6", NULL},
	{"it is not bound while clients of other namespaces have it",
		POOL SPACES TWO "R1/pool/large%Aw " BIND("two", "small"),
		"S2 of R: R1; [done]*4; [failed]", "has 1 client of other namespaces"},
	{"what is not bound is not unbound", POOL SPACES TWO UNBIND("two", "small"),
		"S2 of R; [done]*4; [failed]",
		"Namespace 'small' is not bound to SM partition 'two'"},
};

/* ---- which chunks a client gets */

#define ALL UINT64_MAX /* the GPU is not divided for the client */

static const struct grant {
	const char *rule, *script;
	uint64_t r1, r2; /* chunks; 0: none */
} grants[] = {
	{"without partitions, all", POOL "R1/pool/default R2/pool/default%Aw ", ALL, ALL},
	{"the named one", POOL TWO THREE "R1/pool/default%Aw R2/pool/default%HA ", 0x3, 0x1c},
	{"without a name, none", POOL TWO "R1/pool/default R2/pool/default%HA ", 0, 0},
	{"the one of the namespace, without a name",
		POOL SPACES TWO THREE BIND("two", "small") "R1/pool/small R2/pool/large%HA ", 0x3,
		0x1c},
	{"... and whatever the client names",
		POOL SPACES TWO THREE BIND("two", "small") "R1/pool/small%HA R2/pool/small%Aw ",
		0x3, 0x3},
	{"... and no client of another namespace",
		POOL SPACES TWO BIND("two", "small") "R1/pool/large%Aw R2/pool/default%Aw ", 0, 0},
	{"... unless it is shareable",
		POOL SPACES CREATE("two", "--chunks=2 --shareable=true")
			BIND("two", "small") "R1/pool/small R2/pool/large%Aw ",
		0x3, 0x3},
	{"... or released",
		POOL SPACES TWO BIND("two", "small")
			UNBIND("two", "small") "R1/pool/small R2/pool/large%Aw ",
		0, 0x3},
	{"the remaining SMs are a bit behind the chunks",
		POOL CREATE("x", "--chunks=1 --include-remainder=true") "R1/pool/default%AQAB "
									"R2/pool/default ",
		0x10001, 0},
	{"free chunks up to the maximum",
		POOL CREATE(
			"two", "--chunks=2 --max-chunks=6") "R1/pool/default%Aw R2/pool/default",
		0x3f, 0},
	{"... the same for each client",
		POOL CREATE("two",
			"--chunks=2 --max-chunks=6") "R1/pool/default%Aw R2/pool/default%Aw ",
		0x3f, 0x3f},
	{"... and none of other partitions",
		POOL CREATE("two", "--chunks=2 --max-chunks=6") THREE
		"R1/pool/default%Aw R2/pool/default%HA ",
		0x1e3, 0x1c},
	{"... nor of their clients",
		POOL CREATE("two", "--chunks=2 --max-chunks=6") CREATE("three",
			"--chunks=3 --max-chunks=16") "R1/pool/default%Aw R2/pool/default%HA ",
		0x1e3, 0xfe1c},
	{"a new partition takes none that clients have",
		POOL CREATE("two", "--chunks=2 --max-chunks=6") "R1/pool/default%Aw " CREATE(
			"three", "--chunks=3") "R2/pool/default%wAE ",
		0x3f, 0x1c0},
	{"clients of another server have all of theirs",
		POOL CREATE("all", "--chunks=16") "[server create more] S3+ R1/pool/default "
						  "R2/more/default ",
		0, ALL},
};

static void check_grant(const char *name, uint64_t chunks)
{
	const struct frame_limits *limits = scene_limits(name);

	assert_int_equal(limits->partitioned, chunks == ALL ? 0 : 1);
	assert_int_equal(limits->partition[0], chunks == ALL ? 0 : chunks);
}

static void test_grant(void **state)
{
	const struct grant *grant = *state;

	scene_begin(grant->script);
	check_grant("R1", grant->r1);
	check_grant("R2", grant->r2);
	scene_end();
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(grants)];
	int n_failed = scene_run_rows("sm_partitions", rows, ARRAY_SIZE(rows));

	for (size_t i = 0; i < ARRAY_SIZE(grants); i++)
		tests[i] = (struct CMUnitTest){.name = grants[i].rule,
			.test_func = test_grant,
			.initial_state = (void *)(uintptr_t)&grants[i]};
	return n_failed + cmocka_run_group_tests_name("grants", tests, NULL, NULL);
}
