/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queries and changes of graphs: clones and their nodes, children, edges added,
 * removed and listed, attributes of kernels, user objects, which live as long as
 * graphs refer to them, and the printing of a graph.
 */

#define NAME "graph_clone"
#include <unistd.h>

#include "../helpers/graph_driver.h"

static int has(const CUgraphNode *nodes, size_t n, CUgraphNode node)
{
	for (size_t i = 0; i < n; i++)
		if (nodes[i] == node)
			return 1;
	return 0;
}

static void run_once(CUgraph graph)
{
	CUgraphExec exec = NULL;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	run(exec);
	CHECK(cuGraphExecDestroy(exec));
}

/* A diamond: one node, two parallel nodes, one that depends on both. */
static void edges(void)
{
	CUgraphNode nodes[4], from[8], to[8], list[8];
	CUgraph graph = NULL;
	size_t n = 8;

	CHECK(cuGraphCreate(&graph, 0));
	for (int i = 0; i < 4; i++)
		CHECK(cuGraphAddEmptyNode(&nodes[i], graph, NULL, 0));
	CHECK(cuGraphGetRootNodes(graph, list, &n));
	MUST(n == 4);
	from[0] = from[1] = nodes[0];
	to[0] = from[2] = nodes[1];
	to[1] = from[3] = nodes[2];
	to[2] = to[3] = nodes[3];
	CHECK(cuGraphAddDependencies(graph, from, to, NULL, 4));
	n = 0;
	CHECK(cuGraphGetEdges(graph, NULL, NULL, NULL, &n));
	MUST(n == 4);
	n = 8;
	CHECK(cuGraphGetEdges(graph, from, to, NULL, &n));
	MUST(n == 4);
	n = 8;
	CHECK(cuGraphGetRootNodes(graph, list, &n));
	MUST(n == 1 && list[0] == nodes[0]);
	n = 8;
	CHECK(cuGraphNodeGetDependencies(nodes[3], list, NULL, &n));
	MUST(n == 2 && has(list, 2, nodes[1]) && has(list, 2, nodes[2]));
	n = 8;
	CHECK(cuGraphNodeGetDependentNodes(nodes[0], list, NULL, &n));
	MUST(n == 2 && has(list, 2, nodes[1]) && has(list, 2, nodes[2]));
	CHECK(cuGraphRemoveDependencies(graph, &nodes[1], &nodes[3], NULL, 1));
	n = 8;
	CHECK(cuGraphNodeGetDependencies(nodes[3], list, NULL, &n));
	MUST(n == 1 && list[0] == nodes[2]);
	CHECK(cuGraphDestroyNode(nodes[2]));
	n = 0;
	CHECK(cuGraphNodeGetDependencies(nodes[3], NULL, NULL, &n));
	MUST(n == 0);
	n = 0;
	CHECK(cuGraphGetNodes(graph, NULL, &n));
	MUST(n == 3);
	CHECK(cuGraphDestroy(graph));
}

static void clones(void)
{
	struct mad_args args = {.data = data, .count = COUNT, .times = 1, .add = 50};
	CUDA_KERNEL_NODE_PARAMS params = mad_node(&args, mad);
	CUgraphNode first, second, cloned = NULL, other;
	CUgraph graph = NULL, clone = NULL;
	size_t n = 1;

	CHECK(cuGraphCreate(&graph, 0));
	first = mad_add(graph, NULL, data, 1, 1);
	second = mad_add(graph, first, data, 2, 0);
	CHECK(cuGraphClone(&clone, graph));
	CHECK(cuGraphNodeFindInClone(&cloned, second, clone));
	MUST(cloned != second);
	CHECK(cuGraphNodeGetDependencies(cloned, &other, NULL, &n));
	MUST(n == 1 && other != first);
	CHECK(cuGraphNodeFindInClone(&cloned, first, clone));
	MUST(cloned == other);
	/* Each is changed separately. */
	CHECK(cuGraphKernelNodeSetParams(cloned, &params));
	fill_data(data, 0);
	run_once(graph);
	CHECK_DATA(data, 2, 0);
	run_once(clone);
	CHECK_DATA(data, 104, 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&cloned, cloned, clone));
	CHECK(cuGraphDestroy(graph));
	run_once(clone);
	CHECK_DATA(data, 308, 0);
	CHECK(cuGraphDestroy(clone));
}

/* A child is a copy of the graph at that time; it can have children, and be empty. */
static void children(void)
{
	CUgraph inner = NULL, middle = NULL, outer = NULL, empty = NULL, found = NULL;
	CUgraphNode node, empty_node, middle_node;
	size_t n = 0;

	CHECK(cuGraphCreate(&inner, 0));
	CHECK(cuGraphCreate(&middle, 0));
	CHECK(cuGraphCreate(&outer, 0));
	CHECK(cuGraphCreate(&empty, 0));
	mad_add(inner, NULL, data, 1, 1);
	node = mad_add(middle, NULL, data, 2, 0);
	CHECK(cuGraphAddChildGraphNode(&node, middle, &node, 1, inner));
	mad_add(middle, node, data, 3, 0);
	CHECK(cuGraphAddChildGraphNode(&empty_node, outer, NULL, 0, empty));
	CHECK(cuGraphAddChildGraphNode(&middle_node, outer, &empty_node, 1, middle));
	mad_add(outer, middle_node, data, 1, 1000);
	mad_add(inner, NULL, data, 5, 5); /* too late for the copy */
	CHECK(cuGraphChildGraphNodeGetGraph(middle_node, &found));
	CHECK(cuGraphGetNodes(found, NULL, &n));
	MUST(n == 3);
	fill_data(data, 4);
	run_once(outer);
	CHECK_DATA(data, (4 * 2 + 1) * 3 + 1000, 0);
	CHECK(cuGraphDestroy(inner));
	CHECK(cuGraphDestroy(middle));
	CHECK(cuGraphDestroy(empty));
	fill_data(data, 4);
	run_once(outer);
	CHECK_DATA(data, (4 * 2 + 1) * 3 + 1000, 0);
	CHECK(cuGraphDestroy(outer));
}

static void attributes(void)
{
	CUkernelNodeAttrValue value;
	CUgraphNode one, other;
	CUgraph graph = NULL;
	int greatest, wanted;

	/* A background client has one priority only. */
	CHECK(cuCtxGetStreamPriorityRange(NULL, &greatest));
	wanted = greatest < 0 ? -1 : 0;
	CHECK(cuGraphCreate(&graph, 0));
	one = mad_add(graph, NULL, data, 1, 1);
	other = mad_add(graph, one, data, 1, 1);
	memset(&value, 0, sizeof(value));
	value.priority = -1;
	CHECK(cuGraphKernelNodeSetAttribute(one, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	CHECK(cuGraphKernelNodeCopyAttributes(other, one));
	memset(&value, 0, sizeof(value));
	CHECK(cuGraphKernelNodeGetAttribute(other, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	MUST(value.priority == wanted);
	memset(&value, 0, sizeof(value));
	value.cooperative = 1;
	CHECK(cuGraphKernelNodeSetAttribute(one, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
	value.cooperative = 0;
	CHECK(cuGraphKernelNodeGetAttribute(one, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
	MUST(value.cooperative == 1);
	value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
	CHECK(cuGraphKernelNodeSetAttribute(one, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
	CHECK(cuGraphKernelNodeCopyAttributes(other, one));
	memset(&value, 0, sizeof(value));
	CHECK(cuGraphKernelNodeGetAttribute(other, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
	MUST(value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
	fill_data(data, 0);
	run_once(graph);
	CHECK_DATA(data, 2, 0);
	CHECK(cuGraphDestroy(graph));
}

static volatile int n_destroyed;

static void destroy(void *arg)
{
	(*(volatile int *)arg)++;
}

static void wait_for_destroyed(int n)
{
	for (int i = 0; i < 20000 && n_destroyed != n; i++)
		usleep(1000);
	MUST(n_destroyed == n);
}

/* The destructor may run on another thread, a little later. */
static void user_objects(void)
{
	CUuserObject object = NULL;
	CUgraph graph = NULL, clone = NULL;
	CUgraphExec exec = NULL;

	CHECK(cuGraphCreate(&graph, 0));
	mad_add(graph, NULL, data, 1, 1);
	CHECK(cuUserObjectCreate(
		&object, (void *)&n_destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	CHECK(cuUserObjectRetain(object, 2));
	CHECK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	CHECK(cuUserObjectRelease(object, 2));
	CHECK(cuGraphClone(&clone, graph));
	CHECK(cuGraphInstantiate(&exec, clone, 0));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuGraphDestroy(clone));
	run(exec);
	MUST(n_destroyed == 0);
	CHECK(cuGraphExecDestroy(exec));
	wait_for_destroyed(1);
	CHECK(cuUserObjectCreate(
		&object, (void *)&n_destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	CHECK(cuUserObjectRelease(object, 1));
	wait_for_destroyed(2);
}

static void picture(void)
{
	char path[] = "/tmp/graph_clone-XXXXXX", text[64] = "";
	int fd = mkstemp(path);
	CUgraph graph = NULL;
	FILE *file;

	MUST(fd >= 0);
	close(fd);
	CHECK(cuGraphCreate(&graph, 0));
	mad_add(graph, mad_add(graph, NULL, data, 1, 1), data, 1, 1);
	CHECK(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
	file = fopen(path, "r");
	MUST(file && fgets(text, sizeof(text), file));
	MUST(!strncmp(text, "digraph", 7));
	fclose(file);
	unlink(path);
	CHECK(cuGraphDestroy(graph));
}

int main(void)
{
	setup();
	edges();
	clones();
	children();
	attributes();
	user_objects();
	picture();
	return finish();
}
