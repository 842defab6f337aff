/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONDITIONAL_H
#define CONDITIONAL_H

/*
 * Conditional nodes. A condition is a number that kernels set; its handle is a small
 * number, counted by the outermost graph. A conditional node has bodies, which are
 * graphs, and runs one of them, depending on its condition.
 *
 * All under the driver's lock, except conditional_run(), condition_assign(), condition_set() and
 * loops_kernel_begin(), which run in streams' threads.
 */

#include "graph_exec.h"
#include "tests/softgpu/driver/driver.h"

struct node;

/* ---- conditional.c: graphs */

CUresult conditional_add(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
	size_t n, CUDA_CONDITIONAL_NODE_PARAMS *params);

/* Before the node is freed: drops its bodies, and makes their handles and its own unused. */
void conditional_release(struct node *node);

/* Whether it is a body, or has a conditional node: it cannot be copied. */
bool graph_is_conditional(const struct graph *graph);

/* Whether a graph may become executable. */
CUresult conditional_check(const struct graph *graph, CUgraphInstantiateResult *ret_detail);

/* ---- conditional_work.c: executable graphs */

/* The values of the conditions of an executable graph, counted. NULL: no conditions. */
struct condition_values *condition_values_ref(struct condition_values *values);
void condition_values_unref(struct condition_values *values);

/* For a kernel: sets the condition of a handle; false: no such handle. */
bool condition_set(void *values, uint64_t handle, uint32_t value);

/*
 * The work that begins each launch. It changes `values', which become the work's;
 * NULL: new ones. WORK_NONE if the graph has no conditions.
 */
CUresult condition_assign_new(
	const struct graph *graph, struct condition_values *values, struct work *ret_work);
CUresult condition_assign_dup(const struct work *from, struct work *ret_work);
void condition_assign(const struct assign_work *assign);

/* Adds the steps of the node's bodies to its work. */
CUresult conditional_bodies_new(const struct node *node, struct conditional_work *work);
CUresult conditional_dup(const struct work *from, struct work *ret_work);
void conditional_fini(struct conditional_work *conditional);
CUresult conditional_run(const struct conditional_work *conditional, struct stream *stream);

/* Threads of streams, around a kernel. False: a loop that has to be alone runs elsewhere. */
bool loops_kernel_begin(struct context *context);
void loops_kernel_end(struct context *context);

/* The functions of steps include those of bodies. */

/* NULL: no step of this node. */
struct step *steps_find(struct step *steps, size_t n, const struct node *node);
/* Gives the values to each kernel and conditional node. */
void steps_attach(struct step *steps, size_t n, struct condition_values *values);
/* Whether an update may replace `n' steps by `from'. */
CUgraphExecUpdateResult steps_compare(
	const struct step *steps, size_t n, const struct step *from, size_t n_from);
/* Exchanges the work of steps that steps_compare() has accepted. */
void steps_exchange(struct step *steps, struct step *from, size_t n);

#endif
