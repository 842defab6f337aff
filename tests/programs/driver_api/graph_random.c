/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Random graphs, launched into random streams and changed meanwhile: made node by node or
 * captured, changed node by node or as a whole, disabled in part, destroyed while they run. The
 * nodes of a graph are a chain, and the result depends on the order of all nodes and launches.
 * After each wait the results must be those that this program calculates itself: launches of one
 * executable graph are in order, whatever their streams. Another graph has another result.
 * After a wrong result the program prints what has led to it, since the graph was made.
 *
 * Each kernel reads its result up to LOOKS times before it writes: work that does not wait for the
 * kernel comes between.
 *
 * `fills' also disables fills. Natively, driver 580 then executes work behind the fill too early,
 * or fails (server/driver/driver_facts.h).
 *
 *   graph_random [SEED [ROUNDS [LOOKS [fills]]]]
 */

#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define NAME "graph_random"
#include "../helpers/driver_program.h"

enum {
	STREAMS = 4,
	GRAPHS = 3,
	NODES_MAX = 7,
	CELLS = STREAMS + 16,
	SOURCES = 64
};

/* *cell = *cell * 3 + v, by one thread of the last block, after some looks; `too': times 5. */
#define STEP_ENTRY(name, times)                                                                    \
	".visible .entry " name "(.param .u64 cell, .param .u32 v, .param .u32 looks)\n{\n"        \
	"	.reg .b32 %r<7>;\n	.reg .b64 %rd<3>;\n	.reg .pred %p;\n"                                 \
	"	mov.u32 %r3, %ctaid.x;\n	mov.u32 %r4, %nctaid.x;\n	sub.u32 %r4, "                        \
	"%r4, 1;\n"                                                                                \
	"	setp.ne.u32 %p, %r3, %r4;\n	@%p ret;\n"                                                  \
	"	ld.param.u64 %rd1, [cell];\n	ld.param.u32 %r1, [v];\n"                                   \
	"	ld.param.u32 %r5, [looks];\n"                                                            \
	"	cvta.to.global.u64 %rd2, %rd1;\n	ld.volatile.global.u32 %r2, [%rd2];\n"                  \
	"AGAIN:\n	setp.eq.u32 %p, %r5, 0;\n	@%p bra END;\n	sub.u32 %r5, %r5, 1;\n"                 \
	"	ld.volatile.global.u32 %r6, [%rd2];\n	bra AGAIN;\nEND:\n"                                \
	"	mad.lo.s32 %r2, %r2, " times ", %r1;\n	st.volatile.global.u32 [%rd2], %r2;\n"      \
	"	ret;\n}\n"

static const char image[] = ".version 7.0\n.target sm_75\n.address_size 64\n" STEP_ENTRY(
	"step", "3") STEP_ENTRY("too", "5");

enum kind {
	KERNEL,
	FILL,
	COPY,
	WRITE,
	CALL,
	KINDS
};

/* A result, in pinned memory; `expected': after all work so far. */
static struct cell {
	volatile uint32_t *value;
	CUdeviceptr address;
	uint32_t expected;
	int is_used;   /* since the last wait */
	char *past;    /* lines of text: what has led to `expected' */
	size_t n_past; /* characters */
} cells[CELLS];

struct item {
	enum kind kind;
	uint32_t v;      /* COPY: which source */
	unsigned blocks; /* of a kernel */
	uint32_t looks;
	int is_too, is_disabled;
	CUgraphNode node;
	struct graph *graph;
};

static struct graph {
	CUgraph graph;
	CUgraphExec exec;
	struct item items[NODES_MAX];
	int n;
	int is_captured;
	struct cell *cell;
} graphs[GRAPHS];

static struct {
	CUstream stream;
	struct cell *cell;
} lines[STREAMS];

static CUcontext context;
static CUfunction step, too;
static CUdeviceptr sources;
static uint32_t source_values[SOURCES];
static CUevent event;
static unsigned state, looks_state, looks_max;
static int round_now, disables_fills;

/* What calls of captured and executable graphs get; never freed, as a launch may be queued. */
struct call {
	volatile uint32_t *cell;
	uint32_t v;
};

static unsigned draw(unsigned n)
{
	state = state * 1103515245 + 12345;
	return (state >> 16) % n;
}

/* Apart, so that the same seed makes the same graphs. */
static uint32_t draw_looks(void)
{
	looks_state = looks_state * 1103515245 + 12345;
	return looks_max ? (looks_state >> 16) % looks_max : 0;
}

/* ---- what has led to a result */

static void past_clear(struct cell *cell)
{
	free(cell->past);
	cell->past = NULL;
	cell->n_past = 0;
}

__attribute__((format(printf, 2, 3))) static void past_add(struct cell *cell, const char *form, ...)
{
	char line[160];
	va_list args;
	int n;

	va_start(args, form);
	n = vsnprintf(line, sizeof(line), form, args);
	va_end(args);
	MUST(n > 0 && n < (int)sizeof(line));
	cell->past = realloc(cell->past, cell->n_past + (size_t)n + 1);
	MUST(cell->past != NULL);
	memcpy(cell->past + cell->n_past, line, (size_t)n + 1);
	cell->n_past += (size_t)n;
}

static const char *item_text(const struct item *item)
{
	static const char *const names[KINDS] = {
		"kernel *3 +", "fill ", "copy ", "write ", "call *7 +"};
	static char text[64];
	uint32_t v = item->kind == COPY ? source_values[item->v] : item->v;

	snprintf(text, sizeof(text), "%s%u%s",
		item->kind == KERNEL && item->is_too ? "kernel *5 +" : names[item->kind], v,
		item->is_disabled ? ", disabled" : "");
	return text;
}

/* ---- nodes */

static void CUDA_CB on_call(void *arg)
{
	const struct call *call = arg;

	*call->cell = *call->cell * 7 + call->v;
}

static CUDA_HOST_NODE_PARAMS call_params(const struct item *item)
{
	struct call *call = malloc(sizeof(*call));

	*call = (struct call){item->graph->cell->value, item->v};
	return (CUDA_HOST_NODE_PARAMS){on_call, call};
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(struct item *item, void *params[3])
{
	CUDA_KERNEL_NODE_PARAMS node = node_of(item->is_too ? too : step);

	params[0] = &item->graph->cell->address;
	params[1] = &item->v;
	params[2] = &item->looks;
	node.gridDimX = item->blocks;
	node.kernelParams = params;
	return node;
}

static CUDA_MEMSET_NODE_PARAMS fill_params(const struct item *item)
{
	return (CUDA_MEMSET_NODE_PARAMS){.dst = item->graph->cell->address,
		.value = item->v,
		.elementSize = 4,
		.width = 1,
		.height = 1};
}

static CUDA_MEMCPY3D copy_params(const struct item *item)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = sources + item->v * sizeof(uint32_t),
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = item->graph->cell->address,
		.WidthInBytes = sizeof(uint32_t),
		.Height = 1,
		.Depth = 1};
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS write_params(
	const struct item *item, CUstreamBatchMemOpParams *op)
{
	memset(op, 0, sizeof(*op));
	op->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op->writeValue.address = item->graph->cell->address;
	op->writeValue.value = item->v;
	return (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = context, .count = 1, .paramArray = op};
}

static void add(struct item *item, CUgraph graph, const CUgraphNode *before)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS write;
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_HOST_NODE_PARAMS call;
	CUstreamBatchMemOpParams op;
	CUDA_MEMCPY3D copy;
	void *params[3];
	size_t n = before != NULL;

	switch (item->kind) {
	case KERNEL:
		kernel = kernel_params(item, params);
		CHECK(cuGraphAddKernelNode(&item->node, graph, before, n, &kernel));
		break;
	case FILL:
		fill = fill_params(item);
		CHECK(cuGraphAddMemsetNode(&item->node, graph, before, n, &fill, context));
		break;
	case COPY:
		copy = copy_params(item);
		CHECK(cuGraphAddMemcpyNode(&item->node, graph, before, n, &copy, context));
		break;
	case WRITE:
		write = write_params(item, &op);
		CHECK(cuGraphAddBatchMemOpNode(&item->node, graph, before, n, &write));
		break;
	default:
		call = call_params(item);
		CHECK(cuGraphAddHostNode(&item->node, graph, before, n, &call));
	}
}

static void change(struct item *item, CUgraphExec exec)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS write;
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_HOST_NODE_PARAMS call;
	CUstreamBatchMemOpParams op;
	CUDA_MEMCPY3D copy;
	void *params[3];

	switch (item->kind) {
	case KERNEL:
		kernel = kernel_params(item, params);
		CHECK(cuGraphExecKernelNodeSetParams(exec, item->node, &kernel));
		break;
	case FILL:
		fill = fill_params(item);
		CHECK(cuGraphExecMemsetNodeSetParams(exec, item->node, &fill, context));
		break;
	case COPY:
		copy = copy_params(item);
		CHECK(cuGraphExecMemcpyNodeSetParams(exec, item->node, &copy, context));
		break;
	case WRITE:
		write = write_params(item, &op);
		CHECK(cuGraphExecBatchMemOpNodeSetParams(exec, item->node, &write));
		break;
	default:
		call = call_params(item);
		CHECK(cuGraphExecHostNodeSetParams(exec, item->node, &call));
	}
}

/* The same work in a stream that captures. */
static void capture(struct item *item, CUstream stream)
{
	CUstreamCaptureStatus status;
	CUstreamBatchMemOpParams op;
	const CUgraphEdgeData *edges;
	const CUgraphNode *last;
	CUDA_HOST_NODE_PARAMS call;
	void *params[3];
	cuuint64_t id;
	CUgraph graph;
	size_t n;

	if (item->kind == KERNEL) {
		(void)kernel_params(item, params);
		CHECK(cuLaunchKernel(item->is_too ? too : step, item->blocks, 1, 1, 1, 1, 1, 0,
			stream, params, NULL));
	} else if (item->kind == FILL) {
		CHECK(cuMemsetD32Async(item->graph->cell->address, item->v, 1, stream));
	} else if (item->kind == COPY) {
		CHECK(cuMemcpyDtoDAsync(item->graph->cell->address,
			sources + item->v * sizeof(uint32_t), sizeof(uint32_t), stream));
	} else if (item->kind == WRITE) {
		(void)write_params(item, &op);
		CHECK(cuStreamBatchMemOp(stream, 1, &op, 0));
	} else {
		call = call_params(item);
		CHECK(cuLaunchHostFunc(stream, call.fn, call.userData));
	}
	CHECK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &last, &edges, &n));
	MUST(n == 1);
	item->node = last[0];
}

static uint32_t after(const struct item *item, uint32_t value)
{
	if (item->is_disabled)
		return value;
	switch (item->kind) {
	case KERNEL:
		return value * (item->is_too ? 5 : 3) + item->v;
	case COPY:
		return source_values[item->v];
	case CALL:
		return value * 7 + item->v;
	default:
		return item->v;
	}
}

/* ---- results */

/* A result that is right a moment later has not been waited for. */
static void fail(int i)
{
	uint32_t value = *cells[i].value;

	printf(NAME ": round %d: result %d is %u, not %u\n", round_now, i, value,
		cells[i].expected);
	usleep(100000);
	printf("and %u a moment later; what has led to it:\n%s", *cells[i].value, cells[i].past);
	exit(1);
}

static void wait_for_all(void)
{
	CHECK(cuCtxSynchronize());
	for (int i = 0; i < CELLS; i++) {
		if (*cells[i].value != cells[i].expected)
			fail(i);
		cells[i].is_used = 0;
		if (i < STREAMS)
			past_clear(&cells[i]);
		past_add(&cells[i], "  round %d: waited, %u\n", round_now, cells[i].expected);
	}
	for (int i = 0; i < GRAPHS; i++)
		if (graphs[i].cell)
			graphs[i].cell->is_used = 1;
}

/* Of a graph that is made now: launches of another graph may still run. */
static struct cell *cell_take(void)
{
	for (;;) {
		for (int i = STREAMS; i < CELLS; i++)
			if (!cells[i].is_used) {
				cells[i].is_used = 1;
				past_clear(&cells[i]);
				return &cells[i];
			}
		wait_for_all();
	}
}

/* ---- graphs */

static void draw_values(struct item *item)
{
	item->v = item->kind == COPY ? draw(SOURCES) : draw(1000);
	item->is_too = (int)draw(2);
	item->blocks = 1 + draw(40);
	item->looks = draw_looks();
}

static void make_chain(struct graph *graph, CUgraph *made)
{
	CUstream stream = lines[1 + draw(STREAMS - 1)].stream;

	if (!graph->is_captured) {
		CHECK(cuGraphCreate(made, 0));
		for (int i = 0; i < graph->n; i++)
			add(&graph->items[i], *made, i > 0 ? &graph->items[i - 1].node : NULL);
		return;
	}
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < graph->n; i++)
		capture(&graph->items[i], stream);
	CHECK(cuStreamEndCapture(stream, made));
}

static void make(struct graph *graph)
{
	int may_call = draw(3) == 0;

	graph->cell = cell_take();
	graph->is_captured = (int)draw(2);
	graph->n = 1 + (int)draw(NODES_MAX);
	for (int i = 0; i < graph->n; i++) {
		struct item *item = &graph->items[i];

		/* Mostly kernels: what the others write forgets the order of what came before. */
		*item = (struct item){.graph = graph, .kind = KERNEL};
		if (draw(3) == 0)
			item->kind = draw(may_call ? KINDS : CALL);
		draw_values(item);
	}
	make_chain(graph, &graph->graph);
	CHECK(cuGraphInstantiate(&graph->exec, graph->graph, 0));
	past_add(graph->cell, "  round %d: graph %td of %d nodes, %s; from %u\n", round_now,
		graph - graphs, graph->n, graph->is_captured ? "captured" : "made",
		graph->cell->expected);
}

static void end(struct graph *graph)
{
	CHECK(cuGraphExecDestroy(graph->exec));
	CHECK(cuGraphDestroy(graph->graph));
}

static void launch(struct graph *graph)
{
	unsigned line = draw(STREAMS);

	CHECK(cuGraphLaunch(graph->exec, lines[line].stream));
	past_add(graph->cell, "  round %d: launch in stream %u\n", round_now, line);
	for (int i = 0; i < graph->n; i++) {
		graph->cell->expected = after(&graph->items[i], graph->cell->expected);
		past_add(graph->cell, "    %s: %u\n", item_text(&graph->items[i]),
			graph->cell->expected);
	}
}

static void toggle(struct graph *graph)
{
	struct item *item = &graph->items[draw((unsigned)graph->n)];

	if (item->kind == WRITE || item->kind == CALL || (item->kind == FILL && !disables_fills))
		return;
	item->is_disabled = !item->is_disabled;
	CHECK(cuGraphNodeSetEnabled(graph->exec, item->node, !item->is_disabled));
	past_add(graph->cell, "  round %d: node %td is %s\n", round_now, item - graph->items,
		item_text(item));
}

/* Nodes of another graph of the same shape; changes name the nodes of the first. */
static void update(struct graph *graph)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphNode nodes[NODES_MAX];
	CUgraph other;

	for (int i = 0; i < graph->n; i++) {
		nodes[i] = graph->items[i].node;
		draw_values(&graph->items[i]);
		if (graph->items[i].is_disabled)
			CHECK(cuGraphNodeSetEnabled(graph->exec, nodes[i], 1));
		graph->items[i].is_disabled = 0;
	}
	make_chain(graph, &other);
	CHECK(cuGraphExecUpdate(graph->exec, other, &info));
	CHECK(cuGraphDestroy(other));
	for (int i = 0; i < graph->n; i++)
		graph->items[i].node = nodes[i];
	past_add(graph->cell, "  round %d: update\n", round_now);
}

static void act_on_graph(struct graph *graph)
{
	struct item *item = &graph->items[draw((unsigned)graph->n)];

	switch (draw(12)) {
	case 0:
		end(graph);
		make(graph);
		break;
	case 1:
		toggle(graph);
		break;
	case 2:
		update(graph);
		break;
	case 3:
	case 4:
		draw_values(item);
		change(item, graph->exec);
		past_add(graph->cell, "  round %d: node %td becomes %s\n", round_now,
			item - graph->items, item_text(item));
		break;
	case 5:
		CHECK(cuGraphUpload(graph->exec, lines[draw(STREAMS)].stream));
		past_add(graph->cell, "  round %d: upload\n", round_now);
		break;
	default:
		launch(graph);
	}
}

/* ---- work of streams, and waits */

static void act_on_stream(unsigned i)
{
	unsigned other = draw(STREAMS);
	uint32_t v = draw(1000), looks = draw_looks();
	void *params[] = {&lines[i].cell->address, &v, &looks};

	if (draw(3) > 0) {
		CHECK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, lines[i].stream, params, NULL));
		lines[i].cell->expected = lines[i].cell->expected * 3 + v;
		past_add(lines[i].cell, "  round %d: kernel *3 +%u: %u\n", round_now, v,
			lines[i].cell->expected);
		return;
	}
	CHECK(cuEventRecord(event, lines[i].stream));
	CHECK(cuStreamWaitEvent(lines[other].stream, event, 0));
}

static void act(void)
{
	switch (draw(16)) {
	case 0:
		wait_for_all();
		break;
	case 1:
		CHECK(cuStreamSynchronize(lines[draw(STREAMS)].stream));
		break;
	case 2:
	case 3:
	case 4:
		act_on_stream(draw(STREAMS));
		break;
	default:
		act_on_graph(&graphs[draw(GRAPHS)]);
	}
}

static void begin(void)
{
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < SOURCES; i++)
		source_values[i] = 77 * i;
	CHECK(cuMemAlloc(&sources, sizeof(source_values)));
	CHECK(cuMemcpyHtoD(sources, source_values, sizeof(source_values)));
	for (int i = 0; i < CELLS; i++) {
		void *value;

		CHECK(cuMemHostAlloc(&value, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
		CHECK(cuMemHostGetDevicePointer(&cells[i].address, value, 0));
		cells[i].value = value;
		*cells[i].value = 0;
	}
	/* One is the NULL stream, and one takes turns with it. */
	for (int i = 0; i < STREAMS; i++) {
		lines[i].cell = &cells[i];
		if (i > 0)
			CHECK(cuStreamCreate(&lines[i].stream,
				i == 1 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	}
	for (int i = 0; i < GRAPHS; i++)
		make(&graphs[i]);
}

int main(int argc, char **argv)
{
	int n_rounds = argc > 2 ? atoi(argv[2]) : 1000;
	CUmodule module;

	disables_fills = argc > 4 && !strcmp(argv[4], "fills");
	looks_max = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	state = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&step, module, "step"));
	CHECK(cuModuleGetFunction(&too, module, "too"));
	begin();
	for (round_now = 0; round_now < n_rounds; round_now++)
		act();
	wait_for_all();
	for (int i = 0; i < GRAPHS; i++)
		end(&graphs[i]);
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
