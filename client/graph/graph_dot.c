/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes graphs as files for Graphviz. Any thread of the application.
 *
 * Invariant: nodes are numbered in the order of their creation.
 */

#include <stdio.h>

#include "calls_graph.h"
#include "graph.h"

static const char *type_name(CUgraphNodeType type)
{
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return "KERNEL";
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return "MEMCPY";
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return "MEMSET";
	case CU_GRAPH_NODE_TYPE_HOST:
		return "HOST";
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return "GRAPH";
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return "EVENT_WAIT";
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return "EVENT_RECORD";
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return "BATCH_MEM_OP";
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return "CONDITIONAL";
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return "MEM_ALLOC";
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return "MEM_FREE";
	default:
		return "EMPTY";
	}
}

static void print_label(FILE *file, const struct graph_node *node)
{
	const struct node_op *op = &node->op;
	const struct launch *launch = &op->kernel.launch;

	fprintf(file, "%s", type_name(op->type));
	if (op->type == CU_GRAPH_NODE_TYPE_KERNEL)
		fprintf(file, "\\n%s<<<(%u,%u,%u),(%u,%u,%u),%u>>>", op->kernel.kernel->name,
			launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
			launch->block[1], launch->block[2], launch->shared_bytes);
	else if (op->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		fprintf(file, "\\n%#llx to %#llx, %llu x %llu x %llu",
			(unsigned long long)op->copy.box.src.address,
			(unsigned long long)op->copy.box.dst.address,
			(unsigned long long)op->copy.box.width,
			(unsigned long long)op->copy.box.height,
			(unsigned long long)op->copy.box.depth);
	else if (op->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		fprintf(file, "\\n%s %llu",
			(const char *const[]){"IF", "WHILE", "SWITCH"}[op->conditional.type],
			(unsigned long long)op->conditional.handle);
	else if (op->type == CU_GRAPH_NODE_TYPE_MEMSET)
		fprintf(file, "\\n%#llx, value %u", (unsigned long long)op->fill.dst,
			op->fill.value);
}

/* Edges from a node to the first nodes of a graph within it. */
static void print_entries(FILE *file, unsigned long long number, const struct graph *graph)
{
	for (const struct graph_node *inner = graph->first; inner; inner = inner->next)
		if (inner->n_before == 0)
			fprintf(file, "\t\"node_%llu\" -> \"node_%llu\" [style=\"dashed\"];\n",
				number, (unsigned long long)inner->unique);
}

static void print_node(FILE *file, const struct graph_node *node, bool is_verbose)
{
	unsigned long long number = node->unique;
	struct graph *const *inner;
	uint32_t n;

	fprintf(file, "\t\"node_%llu\" [shape=\"box\" label=\"", number);
	if (is_verbose)
		print_label(file, node);
	else
		fprintf(file, "%s", type_name(node->op.type));
	fprintf(file, "\"];\n");
	for (uint32_t i = 0; i < node->n_before; i++)
		fprintf(file, "\t\"node_%llu\" -> \"node_%llu\";\n",
			(unsigned long long)node->before[i].node->unique, number);
	n = node_inner_graphs(node, &inner);
	for (uint32_t i = 0; i < n; i++)
		print_entries(file, number, inner[i]);
}

CUresult local_cuGraphDebugDotPrint(struct graph *graph, const char *path, unsigned int flags)
{
	FILE *file = fopen(path, "we");
	bool failed;

	if (!file)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(file, "digraph dot {\n");
	for (struct graph_node *node = graph->first; node; node = graph_next(graph, node))
		print_node(file, node, flags != 0);
	fprintf(file, "}\n");
	failed = ferror(file) != 0;
	return fclose(file) == 0 && !failed ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
