/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attributes of kernel nodes: which there are, their first values, and that they come back
 * as they were set, copied, cloned and captured. A new description of a kernel keeps them.
 */

#define NAME "node_attributes"
#include "../helpers/graph_driver.h"

#define N_NAMES 20
#define UNTOUCHED 0x5a

/* The bytes that a query writes; 0: nodes do not have the attribute. */
static const struct {
	CUlaunchAttributeID name;
	size_t size;
} known[] = {
	{CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, sizeof(CUaccessPolicyWindow)},
	{CU_LAUNCH_ATTRIBUTE_COOPERATIVE, sizeof(int)},
	{CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 3 * sizeof(unsigned)},
	{CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, sizeof(int)},
	{CU_LAUNCH_ATTRIBUTE_PRIORITY, sizeof(int)},
	{CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, sizeof(CUlaunchMemSyncDomainMap)},
	{CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, sizeof(int)},
	{CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, sizeof(int)},
	{CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, sizeof(unsigned)},
};

#define N_KNOWN (sizeof(known) / sizeof(known[0]))

static CUgraph graph;
static int greatest;

static size_t size_of(int name)
{
	for (unsigned i = 0; i < N_KNOWN; i++)
		if ((int)known[i].name == name)
			return known[i].size;
	return 0;
}

static CUlaunchAttributeValue get(CUgraphNode node, CUlaunchAttributeID name)
{
	CUlaunchAttributeValue value;

	memset(&value, UNTOUCHED, sizeof(value));
	CHECK(cuGraphKernelNodeGetAttribute(node, name, &value));
	/* What follows the attribute's own bytes is left alone; a device node is apart from them.
	 */
	for (size_t i = size_of(name);
		i < sizeof(value) && name != CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE &&
		name != CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
		i++)
		MUST(((unsigned char *)&value)[i] == UNTOUCHED);
	return value;
}

static void check_first_values(CUgraphNode node)
{
	static const CUaccessPolicyWindow none;
	CUlaunchAttributeValue value = get(node, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);

	MUST(value.accessPolicyWindow.num_bytes == none.num_bytes);
	MUST(value.accessPolicyWindow.base_ptr == NULL);
	MUST(get(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative == 0);
	value = get(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
	MUST(!value.clusterDim.x && !value.clusterDim.y && !value.clusterDim.z);
	value = get(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
	MUST(value.clusterSchedulingPolicyPreference == CU_CLUSTER_SCHEDULING_POLICY_DEFAULT);
	MUST(get(node, CU_LAUNCH_ATTRIBUTE_PRIORITY).priority == 0);
	value = get(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP);
	MUST(value.memSyncDomainMap.default_ == 0 && value.memSyncDomainMap.remote == 1);
	MUST(get(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain == 0);
	value = get(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE);
	MUST(!value.deviceUpdatableKernelNode.deviceUpdatable);
	value = get(node, CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
	MUST(value.sharedMemCarveout == 0);
}

static void check_set_values(CUgraphNode node)
{
	CUlaunchAttributeValue value = get(node, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);

	MUST(value.accessPolicyWindow.base_ptr == (void *)(size_t)data);
	MUST(value.accessPolicyWindow.num_bytes == 512);
	MUST(value.accessPolicyWindow.hitRatio == 0.5f);
	MUST(value.accessPolicyWindow.hitProp == CU_ACCESS_PROPERTY_PERSISTING);
	MUST(value.accessPolicyWindow.missProp == CU_ACCESS_PROPERTY_STREAMING);
	value = get(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
	MUST(value.clusterDim.x == 2 && value.clusterDim.y == 1 && value.clusterDim.z == 1);
	value = get(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
	MUST(value.clusterSchedulingPolicyPreference ==
		CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
	MUST(get(node, CU_LAUNCH_ATTRIBUTE_PRIORITY).priority == greatest);
	value = get(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP);
	MUST(value.memSyncDomainMap.default_ == 1 && value.memSyncDomainMap.remote == 0);
	value = get(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
	MUST(value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
	value = get(node, CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
	MUST(value.sharedMemCarveout == 50);
}

#define N_SET 7

static void fill_attributes(CUlaunchAttribute attributes[N_SET])
{
	CUaccessPolicyWindow *window = &attributes[0].value.accessPolicyWindow;

	memset(attributes, 0, N_SET * sizeof(attributes[0]));
	attributes[0].id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
	window->base_ptr = (void *)(size_t)data;
	window->num_bytes = 512;
	window->hitRatio = 0.5f;
	window->hitProp = CU_ACCESS_PROPERTY_PERSISTING;
	window->missProp = CU_ACCESS_PROPERTY_STREAMING;
	attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
	attributes[1].value.clusterDim.x = 2;
	attributes[1].value.clusterDim.y = attributes[1].value.clusterDim.z = 1;
	attributes[2].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
	attributes[2].value.clusterSchedulingPolicyPreference =
		CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
	attributes[3].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
	attributes[3].value.priority = greatest;
	attributes[4].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP;
	attributes[4].value.memSyncDomainMap.default_ = 1;
	attributes[5].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
	attributes[5].value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
	attributes[6].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
	attributes[6].value.sharedMemCarveout = 50;
}

static void set_and_get(void)
{
	struct mad_args args = {.data = data, .count = COUNT, .times = 1, .add = 1};
	CUDA_KERNEL_NODE_PARAMS params = mad_node(&args, mad);
	CUlaunchAttribute attributes[N_SET];
	CUgraphNode node = mad_add(graph, NULL, data, 1, 1), other, found;
	CUgraph clone = NULL;

	check_first_values(node);
	fill_attributes(attributes);
	for (unsigned i = 0; i < N_SET; i++)
		CHECK(cuGraphKernelNodeSetAttribute(node, attributes[i].id, &attributes[i].value));
	check_set_values(node);
	params.gridDimX = 2;
	CHECK(cuGraphKernelNodeSetParams(node, &params));
	check_set_values(node);
	other = mad_add(graph, node, data, 1, 1);
	CHECK(cuGraphKernelNodeCopyAttributes(other, node));
	check_set_values(other);
	CHECK(cuGraphClone(&clone, graph));
	CHECK(cuGraphNodeFindInClone(&found, node, clone));
	check_set_values(found);
	CHECK(cuGraphDestroy(clone));
}

static void captured(void)
{
	struct mad_args args = {.data = data, .count = COUNT, .times = 1, .add = 1};
	CUlaunchAttribute attributes[N_SET];
	CUlaunchConfig config = {.gridDimX = 2,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream,
		.attrs = attributes,
		.numAttrs = N_SET};
	CUgraph of_stream = NULL;
	CUgraphNode node = NULL;
	size_t n = 1;

	mad_node(&args, mad);
	fill_attributes(attributes);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuLaunchKernelEx(&config, mad, args.list, NULL));
	CHECK(cuStreamEndCapture(stream, &of_stream));
	CHECK(cuGraphGetNodes(of_stream, &node, &n));
	check_set_values(node);
	CHECK(cuGraphDestroy(of_stream));
}

/* A captured kernel has the priority of its stream. */
static void captured_priority(void)
{
	struct mad_args args = {.data = data, .count = COUNT, .times = 1, .add = 1};
	CUgraph of_stream = NULL;
	CUstream urgent = NULL;
	CUgraphNode node = NULL;
	size_t n = 1;

	mad_node(&args, mad);
	CHECK(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, greatest));
	CHECK(cuStreamBeginCapture(urgent, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuLaunchKernel(mad, 1, 1, 1, 1, 1, 1, 0, urgent, args.list, NULL));
	CHECK(cuStreamEndCapture(urgent, &of_stream));
	CHECK(cuGraphGetNodes(of_stream, &node, &n));
	MUST(get(node, CU_LAUNCH_ATTRIBUTE_PRIORITY).priority == greatest);
	CHECK(cuGraphDestroy(of_stream));
	CHECK(cuStreamDestroy(urgent));
}

static void refused(void)
{
	CUgraphNode node = mad_add(graph, NULL, data, 1, 1);
	CUlaunchAttributeValue value;

	for (int name = 0; name < N_NAMES; name++) {
		memset(&value, 0, sizeof(value));
		if (size_of(name) == 0)
			EXPECT(CUDA_ERROR_INVALID_VALUE,
				cuGraphKernelNodeGetAttribute(node, name, &value));
		if (size_of(name) == 0 &&
			name != CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING)
			EXPECT(CUDA_ERROR_INVALID_VALUE,
				cuGraphKernelNodeSetAttribute(node, name, &value));
	}
	value.clusterDim.x = 1;
	EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
		cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value));
	check_first_values(node);
	/* A priority is that of a stream: the nearest is taken. */
	value.priority = 1;
	CHECK(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	MUST(get(node, CU_LAUNCH_ATTRIBUTE_PRIORITY).priority == 0);
}

int main(void)
{
	int least;

	setup();
	CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
	CHECK(cuGraphCreate(&graph, 0));
	set_and_get();
	captured();
	captured_priority();
	refused();
	CHECK(cuGraphDestroy(graph));
	return finish();
}
