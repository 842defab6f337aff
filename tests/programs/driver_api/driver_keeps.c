/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How many bytes of a process's own memory the driver keeps for each object, natively.
 * A server keeps objects for its clients, and charges them by the estimates in
 * server/util/kept.h, with which this program compares its measurements.
 *
 *   driver_keeps [NAME...]
 *
 * Creates each object in a separate process. Prints for each
 * `NAME kept=BYTES charged=BYTES', both of one object (of texts: of a KiB), and fails
 * if the driver keeps more.
 *
 * Runs: for a test of its own
 */

#define _GNU_SOURCE
#define NAME "driver_keeps"
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "../../../server/util/kept.h"
#include "../helpers/driver_program.h"
#include "../helpers/each_thing.h"
#include "../helpers/own_memory.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum {
	STREAMS = 200,
	EVENTS = 40000,
	LIBRARIES = 400,
	KERNELS = 4000,
	TEXTS = 8,
	LINKERS = 200,
	GRAPHS = 4000,
	NODES = 8000,
	CONDITIONALS = 256,
	OPS = 255,
	DENSE = 300, /* nodes that all depend on every earlier node */
	ARRAYS = 500,
	TEXTURES = 20000,
	MAPPINGS = 200,
	REGISTRATIONS = 500,
	LIMIT_S = 120,
};

static const char ptx[] = IMAGE_OF_NOTHING;
static const char large[] = ".version 7.8\n.target sm_75\n.address_size 64\n"
			    ".visible .entry nothing(.param .align 8 .b8 value[4000])\n"
			    "{\n"
			    "	ret;\n"
			    "}\n";

static CUdevice device;
static CUcontext context;
static CUstream stream;
static CUfunction function;
static CUdeviceptr memory;
static CUgraph graph;

/* ---- the objects: each function returns how many it created, and the charge for one */

struct made {
	size_t n;
	size_t charged;
};

static struct made make_streams(void)
{
	CUstream made;

	for (unsigned i = 0; i < STREAMS; i++) {
		CHECK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made, NULL, NULL));
	}
	return (struct made){STREAMS, KEPT_STREAM};
}

static struct made make_events(void)
{
	CUevent made;

	for (unsigned i = 0; i < EVENTS; i++) {
		CHECK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
		CHECK(cuEventRecord(made, stream));
	}
	return (struct made){EVENTS, KEPT_EVENT};
}

static CUfunction load(const char *text, const char *name)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *value = (void *)1;
	CUfunction found;
	CUlibrary library;
	CUkernel kernel;

	CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, &option, &value, 1));
	CHECK(cuLibraryGetKernel(&kernel, library, name));
	CHECK(cuKernelGetFunction(&found, kernel));
	return found;
}

static struct made make_libraries(void)
{
	for (unsigned i = 0; i < LIBRARIES; i++)
		(void)load(ptx, "nothing");
	return (struct made){LIBRARIES, KEPT_LIBRARY + KEPT_KERNEL + KEPT_TEXT(sizeof(ptx))};
}

/* A text of `size' bytes in one kernel: instructions, or words without meaning. */
static char *make_text(size_t size, const char *line, const char *last)
{
	static const char head[] =
		".version 7.0\n.target sm_75\n.address_size 64\n"
		".visible .entry nothing(.param .u64 out)\n{\n"
		"	.reg .b64 %d<3>;\n	.reg .b32 %r<3>;\n"
		"	ld.param.u64 %d1, [out];\n	ld.global.u32 %r1, [%d1];\n";
	char *text = malloc(size + sizeof(head) + 256);
	size_t at = sizeof(head) - 1, length = strlen(line);

	MUST(text != NULL);
	memcpy(text, head, sizeof(head));
	for (; at + length < size; at += length)
		strcpy(text + at, line);
	strcpy(text + at, last);
	return text;
}

static const char instruction[] = "mad.lo.s32 %r1,%r1,%r1,3;\n";
static const char store[] = "	st.global.u32 [%d1], %r1;\n	ret;\n}\n";

static struct made load_texts(const char *line)
{
	char *text = make_text(256 * KIB, line, store);

	/* The program owns it, as a client owns its image. */
	for (unsigned i = 0; i < TEXTS; i++)
		(void)load(text, "nothing");
	return (struct made){TEXTS * (256 * KIB >> 10), KEPT_TEXT(KIB)};
}

static struct made load_instructions(void)
{
	return load_texts(instruction);
}

static struct made load_remarks(void)
{
	return load_texts("// nothing of any meaning at all\n");
}

static struct made make_kernels(void)
{
	char *text = calloc(KERNELS + 1, 64);
	CUlibrary library;
	CUkernel kernel;
	CUfunction found;
	char name[32];
	size_t at;

	MUST(text != NULL);
	at = (size_t)sprintf(text, ".version 7.0\n.target sm_75\n.address_size 64\n");
	for (unsigned i = 0; i < KERNELS; i++)
		at += (size_t)sprintf(text + at, ".visible .entry k%u() { ret; }\n", i);
	CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	for (unsigned i = 0; i < KERNELS; i++) {
		sprintf(name, "k%u", i);
		CHECK(cuLibraryGetKernel(&kernel, library, name));
		CHECK(cuKernelGetFunction(&found, kernel));
	}
	return (struct made){KERNELS, KEPT_KERNEL + KEPT_TEXT(at) / KERNELS};
}

static CUlinkState make_linker(void)
{
	CUlinkState made;

	CHECK(cuLinkCreate(0, NULL, NULL, &made));
	return made;
}

static struct made make_linkers(void)
{
	for (unsigned i = 0; i < LINKERS; i++)
		CHECK(cuLinkAddData(make_linker(), CU_JIT_INPUT_PTX, (void *)ptx, sizeof(ptx),
			"text", 0, NULL, NULL));
	return (struct made){LINKERS, KEPT_LINKER + KEPT_INPUT(sizeof(ptx))};
}

static struct made link_texts(const char *line, int completes)
{
	char *text = make_text(256 * KIB, line, store);
	void *image;

	for (unsigned i = 0; i < TEXTS; i++) {
		CUlinkState linker = make_linker();

		CHECK(cuLinkAddData(
			linker, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "text", 0, NULL, NULL));
		if (completes)
			CHECK(cuLinkComplete(linker, &image, NULL));
	}
	return (struct made){TEXTS * (256 * KIB >> 10), KEPT_INPUT(KIB)};
}

static struct made add_instructions(void)
{
	return link_texts(instruction, 0);
}

static struct made add_remarks(void)
{
	return link_texts("// nothing of any meaning at all\n", 0);
}

static struct made link_instructions(void)
{
	return link_texts(instruction, 1);
}

static void instantiate(void)
{
	CUgraphExec exec;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
}

static void begin_graph(void)
{
	CHECK(cuGraphCreate(&graph, 0));
}

static struct made make_graphs(void)
{
	for (unsigned i = 0; i < GRAPHS; i++) {
		begin_graph();
		instantiate();
	}
	return (struct made){GRAPHS, KEPT_GRAPH};
}

static struct made make_empty_nodes(void)
{
	CUgraphNode node;

	begin_graph();
	for (unsigned i = 0; i < NODES; i++)
		CHECK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	instantiate();
	return (struct made){NODES, KEPT_NODE};
}

static struct made make_kernel_nodes_of(CUfunction of, size_t size)
{
	static const char zeros[4096];
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)zeros, CU_LAUNCH_PARAM_BUFFER_SIZE,
		&size, CU_LAUNCH_PARAM_END};
	CUDA_KERNEL_NODE_PARAMS params = node_of(of);
	CUgraphNode node;

	if (size > 0)
		params.extra = extra;
	begin_graph();
	for (unsigned i = 0; i < NODES; i++)
		CHECK(cuGraphAddKernelNode(&node, graph, &node, i > 0, &params));
	instantiate();
	return (struct made){NODES, KEPT_NODE + KEPT_EDGE + KEPT_PARAMS(size)};
}

static struct made make_kernel_nodes(void)
{
	return make_kernel_nodes_of(function, 0);
}

static struct made make_large_kernel_nodes(void)
{
	return make_kernel_nodes_of(load(large, "nothing"), 4000);
}

/* Each with a body, which `n_nodes' nodes fill. The driver's first such graph costs more. */
static struct made make_conditional_nodes_of(unsigned n, unsigned n_nodes)
{
	begin_graph();
	for (unsigned i = 0; i < n; i++)
		add_conditional(graph, context, function, n_nodes);
	instantiate();
	return (struct made){n, KEPT_CONDITION + KEPT_NODE + KEPT_CONDITIONAL + KEPT_GRAPH +
					n_nodes * (KEPT_NODE + KEPT_IN_BODY)};
}

static struct made make_conditional_nodes(void)
{
	return make_conditional_nodes_of(CONDITIONALS, 1);
}

static struct made make_nodes_in_bodies(void)
{
	return make_conditional_nodes_of(CONDITIONALS / 4, 16);
}

static struct made make_fill_nodes(void)
{
	const CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = memory, .elementSize = 1, .width = 64, .height = 1};
	CUgraphNode node;

	begin_graph();
	for (unsigned i = 0; i < NODES; i++)
		CHECK(cuGraphAddMemsetNode(&node, graph, &node, i > 0, &fill, context));
	instantiate();
	return (struct made){NODES, KEPT_NODE + KEPT_EDGE};
}

static struct made make_copy_nodes(void)
{
	const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = memory,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory + MIB,
		.WidthInBytes = 64,
		.Height = 1,
		.Depth = 1};
	CUgraphNode node;

	begin_graph();
	for (unsigned i = 0; i < NODES; i++)
		CHECK(cuGraphAddMemcpyNode(&node, graph, &node, i > 0, &copy, context));
	instantiate();
	return (struct made){NODES, KEPT_NODE + KEPT_EDGE};
}

static struct made make_event_nodes(void)
{
	CUgraphNode node;
	CUevent event;

	begin_graph();
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < NODES; i++)
		CHECK(cuGraphAddEventRecordNode(&node, graph, &node, i > 0, event));
	instantiate();
	return (struct made){NODES, KEPT_NODE + KEPT_EDGE};
}

static struct made make_op_nodes_of(unsigned n_ops)
{
	CUstreamBatchMemOpParams ops[OPS];
	const CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, n_ops, ops, 0};
	CUgraphNode node;

	for (unsigned i = 0; i < n_ops; i++)
		ops[i] = (CUstreamBatchMemOpParams){
			.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
				.address = memory,
				.value = 1}};
	begin_graph();
	for (unsigned i = 0; i < NODES; i++)
		CHECK(cuGraphAddBatchMemOpNode(&node, graph, &node, i > 0, &params));
	instantiate();
	return (struct made){NODES, KEPT_NODE + KEPT_EDGE + n_ops * KEPT_MEMORY_OP};
}

static struct made make_op_nodes(void)
{
	return make_op_nodes_of(1);
}

static struct made make_many_op_nodes(void)
{
	return make_op_nodes_of(OPS);
}

static struct made make_edges(void)
{
	static CUgraphNode nodes[DENSE];

	begin_graph();
	for (unsigned i = 0; i < DENSE; i++)
		CHECK(cuGraphAddEmptyNode(&nodes[i], graph, nodes, i));
	instantiate();
	return (struct made){DENSE * (DENSE - 1) / 2, KEPT_EDGE + 2 * KEPT_NODE / DENSE};
}

static CUarray make_array(void)
{
	const CUDA_ARRAY_DESCRIPTOR shape = {1, 1, CU_AD_FORMAT_FLOAT, 1};
	CUarray made;

	CHECK(cuArrayCreate(&made, &shape));
	return made;
}

static struct made make_arrays(void)
{
	for (unsigned i = 0; i < ARRAYS; i++)
		(void)make_array();
	return (struct made){ARRAYS, KEPT_ARRAY};
}

static struct made make_textures(void)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC sampler = {.filterMode = CU_TR_FILTER_MODE_POINT};
	CUtexObject made;

	resource.res.array.hArray = make_array();
	for (unsigned i = 0; i < TEXTURES; i++)
		CHECK(cuTexObjectCreate(&made, &resource, &sampler, NULL));
	return (struct made){TEXTURES, KEPT_TEXTURE};
}

static struct made make_mappings(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	CHECK(cuMemAddressReserve(&address, 2 * MIB * MAPPINGS, 0, 0, 0));
	for (unsigned i = 0; i < MAPPINGS; i++, address += 2 * MIB) {
		CHECK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
		CHECK(cuMemMap(address, 2 * MIB, 0, handle, 0));
		CHECK(cuMemSetAccess(address, 2 * MIB, &access, 1));
	}
	return (struct made){MAPPINGS, KEPT_ALLOCATION + KEPT_MAPPING};
}

static struct made make_registrations(void)
{
	uint8_t *pages = mmap(NULL, 64 * KIB * REGISTRATIONS, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	MUST(pages != MAP_FAILED);
	for (unsigned i = 0; i < REGISTRATIONS; i++)
		CHECK(cuMemHostRegister(
			pages + 64 * KIB * i, 64 * KIB, CU_MEMHOSTREGISTER_DEVICEMAP));
	return (struct made){REGISTRATIONS, KEPT_REGISTRATION};
}

static const struct thing {
	const char *name;
	struct made (*make)(void);
} things[] = {
	{"stream", make_streams},
	{"event", make_events},
	{"library", make_libraries},
	{"kib_of_instructions", load_instructions},
	{"kib_of_remarks", load_remarks},
	{"kernel", make_kernels},
	{"linker", make_linkers},
	{"kib_of_instructions_added", add_instructions},
	{"kib_of_remarks_added", add_remarks},
	{"kib_of_instructions_linked", link_instructions},
	{"graph", make_graphs},
	{"empty_node", make_empty_nodes},
	{"kernel_node", make_kernel_nodes},
	{"large_kernel_node", make_large_kernel_nodes},
	{"conditional_node", make_conditional_nodes},
	{"conditional_node_of_16", make_nodes_in_bodies},
	{"fill_node", make_fill_nodes},
	{"copy_node", make_copy_nodes},
	{"event_node", make_event_nodes},
	{"op_node", make_op_nodes},
	{"many_op_node", make_many_op_nodes},
	{"edge", make_edges},
	{"array", make_arrays},
	{"texture", make_textures},
	{"mapping", make_mappings},
	{"registration", make_registrations},
};

/* One-time allocations, of the first object, do not count for each. */
static void setup(void)
{
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc(&memory, 4 * MIB));
	function = load(ptx, "nothing");
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	CHECK(cuCtxSynchronize());
	CHECK(link_text(ptx, sizeof(ptx)));
	(void)make_array();
}

static void try_it(const void *data)
{
	const struct thing *thing = data;
	struct made made;
	size_t kept;
	long before;

	setup();
	before = own_memory_kib();
	made = thing->make();
	kept = (size_t)(own_memory_kib() - before) * KIB / made.n;
	printf("%s kept=%zu charged=%zu%s\n", thing->name, kept, made.charged,
		kept > made.charged ? " TOO LITTLE" : "");
	fflush(stdout);
	_exit(kept > made.charged);
}

int main(int argc, char **argv)
{
	int n_bad = 0;

	for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++)
		if (is_named(things[i].name, argc, argv))
			n_bad += in_a_process(things[i].name, LIMIT_S, try_it, &things[i]);
	if (n_bad > 0)
		return 1;
	printf(NAME ": ok\n");
	return 0;
}
