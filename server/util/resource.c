/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The resources of a server, and each sharer's bound of them. Any thread.
 *
 * Invariant: the limit of the server's quota and the part reserved for newcomers fit into the
 * table together.
 */

#include "resource.h"

#include <pthread.h>

#include "layout.h"
#include "machine_memory.h"

/* If the machine does not say how much memory it has. */
#define MACHINE_MEMORY_DEFAULT ((uint64_t)4 << 30)

#define WINDOWS(from, to) (((to) - (from)) >> VA_WINDOW_SHIFT)

static const struct {
	const char *name;
	uint64_t size; /* of the table */
	/* A user has the own part of a process, too, except of memory, which has no table. */
	uint64_t own, own_of_user;
} rules[RESOURCES] = {
	[RESOURCE_HOST_MEMORY] = {"bytes of host memory", 0, RESOURCE_HOST_MEMORY_OWN,
		4 * RESOURCE_HOST_MEMORY_OWN},
	/* The own part covers the memory of a GPU of 256 GiB. */
	[RESOURCE_DEVICE_WINDOWS] = {"VA windows of the device space",
		WINDOWS(DEVICE_SPACE, DEVICE_SPACE_END), 64, 64},
	[RESOURCE_HOST_WINDOWS] = {"VA windows of the host space",
		WINDOWS(HOST_SPACE, HOST_SPACE_END), 64, 64},
	/*
	 * By default the kernel allows 65 530 in a process. The rest is for sessions, pinned
	 * memory, stacks of threads and the driver.
	 */
	[RESOURCE_MAPPINGS] = {"mappings", 32u << 10, 256, 256},
	/* Each keeps some KiB in the driver. */
	[RESOURCE_GRAPHS] = {"graphs", 256u << 10, 1024, 1024},
	/* About 4 GiB of a GPU's memory, which the driver keeps for later graphs. */
	[RESOURCE_GRAPH_NODES] = {"nodes of graphs", 2u << 20, 8192, 8192},
	/* About 1 GiB of a GPU's memory, which the driver keeps until the server ends. */
	[RESOURCE_BODY_NODES] = {"nodes in conditional nodes", 16u << 10, 128, 128},
	[RESOURCE_GREENS] = {"green contexts", 256, 4, 4},
	[RESOURCE_SESSIONS] = {"sessions", SESSIONS_MAX, 8, 8},
	/* host_store_init() sets the limit. */
	[RESOURCE_STORE] = {"bytes of the store", 0, 0, 0},
};

/* An own part is a small part of a table, also in a build with ThreadSanitizer. */
#define OWN_PARTS_MIN 8

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct resource_quotas server;

static void resource_start(void)
{
	uint64_t machine = machine_memory("");

	/* The small tables of a build with ThreadSanitizer have no space for so many newcomers. */
	for (unsigned i = 0; i < RESOURCES; i++)
		server.of[i].limit =
			rules[i].size - MIN(RESOURCE_NEWCOMERS * rules[i].own, rules[i].size / 2);
	server.of[RESOURCE_HOST_MEMORY].limit =
		(machine ? machine : MACHINE_MEMORY_DEFAULT) / RESOURCE_HOST_MEMORY_PART;
	server.of[RESOURCE_STORE].is_common = true;
}

struct quota *resource_of_server(enum resource resource)
{
	pthread_once(&once, resource_start);
	return &server.of[resource];
}

/* Sessions of one process share in the order of use, and have no limits but their process's. */
void resource_quotas_init(
	struct resource_quotas *quotas, enum resource_level level, struct resource_quotas *parent)
{
	for (unsigned i = 0; i < RESOURCES; i++) {
		struct quota *quota = &quotas->of[i], *last = resource_of_server(i);

		quota->parent = parent ? &parent->of[i] : last;
		quota->limit = level == RESOURCE_OF_SESSION ? UINT64_MAX : last->limit;
		quota->own = level == RESOURCE_OF_USER ? rules[i].own_of_user : rules[i].own;
		if (rules[i].size > 0)
			quota->own = MIN(quota->own, last->limit / OWN_PARTS_MIN);
		quota->is_common = level == RESOURCE_OF_PROCESS || i == RESOURCE_STORE;
		/* A server of several users. */
		if (level == RESOURCE_OF_USER && last->is_common)
			last->is_common = false;
		quota->is_exact = i != RESOURCE_HOST_MEMORY;
	}
}

const char *resource_name(enum resource resource)
{
	return rules[resource].name;
}
