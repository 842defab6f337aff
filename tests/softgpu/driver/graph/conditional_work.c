/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes in executable graphs: the values of their conditions, and their
 * bodies as steps.
 *
 * conditional_run(), condition_assign() and condition_set() run in streams' threads
 * without the driver's lock, the rest in any thread under it.
 */

#include <string.h>

#include "conditional.h"
#include "graph.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

/* Launches of one executable graph run one after the other, so they share the values. */
struct condition_values {
	uint32_t refs;
	uint32_t n;
	uint32_t values[]; /* by the handle's number, from 1 on; atomic */
};

static struct condition_values *values_new(uint32_t n)
{
	struct condition_values *values =
		calloc(1, sizeof(*values) + n * sizeof(values->values[0]));

	if (values)
		*values = (struct condition_values){.refs = 1, .n = n};
	return values;
}

struct condition_values *condition_values_ref(struct condition_values *values)
{
	if (values)
		values->refs++;
	return values;
}

void condition_values_unref(struct condition_values *values)
{
	if (values && --values->refs == 0)
		free(values);
}

bool condition_set(void *user, uint64_t handle, uint32_t value)
{
	struct condition_values *values = user;

	if (handle < 1 || handle > values->n)
		return false;
	__atomic_store_n(&values->values[handle - 1], value, __ATOMIC_RELEASE);
	return true;
}

/* ---- the beginning of a launch */

CUresult condition_assign_new(
	const struct graph *graph, struct condition_values *values, struct work *ret_work)
{
	struct work work = {.kind = WORK_ASSIGN, .assign.n = graph->n_conditions};

	*ret_work = (struct work){.kind = WORK_NONE};
	if (graph->n_conditions == 0)
		return CUDA_SUCCESS;
	work.assign.assignments = calloc(graph->n_conditions, sizeof(struct assignment));
	work.assign.values =
		values ? condition_values_ref(values) : values_new(graph->n_conditions);
	if (!work.assign.assignments || !work.assign.values) {
		work_fini(&work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (uint32_t i = 0; i < graph->n_conditions; i++)
		work.assign.assignments[i] = (struct assignment){
			graph->conditions[i].value, graph->conditions[i].is_assigned};
	*ret_work = work;
	return CUDA_SUCCESS;
}

CUresult condition_assign_dup(const struct work *from, struct work *ret_work)
{
	const size_t size = from->assign.n * sizeof(struct assignment);
	struct work work = *from;

	work.assign.assignments = malloc(size);
	if (!work.assign.assignments)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(work.assign.assignments, from->assign.assignments, size);
	condition_values_ref(work.assign.values);
	*ret_work = work;
	return CUDA_SUCCESS;
}

void condition_assign(const struct assign_work *assign)
{
	for (uint32_t i = 0; i < assign->n; i++)
		if (assign->assignments[i].is_assigned)
			condition_set(assign->values, i + 1, assign->assignments[i].value);
}

/* ---- bodies */

CUresult conditional_bodies_new(const struct node *node, struct conditional_work *work)
{
	CUresult result = CUDA_SUCCESS;
	size_t n_branches;

	work->bodies = calloc(node->n_bodies, sizeof(*work->bodies));
	if (!work->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->n_bodies = (uint32_t)node->n_bodies;
	for (size_t i = 0; i < node->n_bodies && result == CUDA_SUCCESS; i++)
		result = steps_new(node->bodies[i], &work->bodies[i].steps,
			&work->bodies[i].n_steps, &n_branches);
	return result;
}

void conditional_fini(struct conditional_work *conditional)
{
	for (uint32_t i = 0; i < conditional->n_bodies; i++)
		steps_free(conditional->bodies[i].steps, conditional->bodies[i].n_steps);
	free(conditional->bodies);
	condition_values_unref(conditional->values);
}

static CUresult body_dup(const struct body *from, struct body *to)
{
	CUresult result = CUDA_SUCCESS;

	to->steps = calloc(from->n_steps + 1, sizeof(*to->steps));
	if (!to->steps)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (to->n_steps < from->n_steps && result == CUDA_SUCCESS) {
		const struct step *step = &from->steps[to->n_steps];
		struct step *copy = &to->steps[to->n_steps++];

		*copy = (struct step){
			.node = step->node, .type = step->type, .is_disabled = step->is_disabled};
		result = work_dup(&step->work, &copy->work);
	}
	return result;
}

CUresult conditional_dup(const struct work *from, struct work *ret_work)
{
	const uint32_t n = from->conditional.n_bodies;
	struct body *bodies = n > 0 ? calloc(n, sizeof(*bodies)) : NULL;
	struct work work = *from;
	CUresult result = CUDA_SUCCESS;

	if (n > 0 && !bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work.conditional.bodies = bodies;
	condition_values_ref(work.conditional.values);
	for (uint32_t i = 0; i < n && result == CUDA_SUCCESS; i++)
		result = body_dup(&from->conditional.bodies[i], &bodies[i]);
	if (result == CUDA_SUCCESS)
		*ret_work = work;
	else
		work_fini(&work);
	return result;
}

static bool is_cancelled(const struct stream *stream)
{
	return atomic_load_explicit(&stream->cancelled, memory_order_relaxed);
}

static CUresult body_run(const struct body *body, struct stream *stream)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < body->n_steps && result == CUDA_SUCCESS; i++) {
		if (is_cancelled(stream))
			return CUDA_SUCCESS;
		if (!body->steps[i].is_disabled)
			result = work_run(&body->steps[i].work, stream);
	}
	return result;
}

/*
 * Driver 580 ends a context in which a loop runs beside kernels (server/driver/driver_facts.h).
 * Here only another loop ends it, unless SOFTGPU_LOOPS_ALONE says otherwise. This thread may be in
 * a loop already, in whose body the loop is.
 */
static _Thread_local unsigned loop_depth;

static bool loop_enter(struct context *context)
{
	if (loop_depth++ > 0)
		return true;
	return atomic_fetch_add(&context->n_loops, 1) == 0 && atomic_load(&context->n_kernels) == 0;
}

static void loop_leave(struct context *context)
{
	if (--loop_depth == 0)
		atomic_fetch_sub(&context->n_loops, 1);
}

bool loops_kernel_begin(struct context *context)
{
	if (!driver.loops_alone || loop_depth > 0)
		return true;
	atomic_fetch_add(&context->n_kernels, 1);
	return atomic_load(&context->n_loops) == 0;
}

void loops_kernel_end(struct context *context)
{
	if (driver.loops_alone && loop_depth == 0)
		atomic_fetch_sub(&context->n_kernels, 1);
}

static CUresult loop_run(const struct body *body, const uint32_t *condition, struct stream *stream)
{
	CUresult result = loop_enter(stream->context) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;

	while (__atomic_load_n(condition, __ATOMIC_ACQUIRE) && result == CUDA_SUCCESS &&
		!is_cancelled(stream))
		result = body_run(body, stream);
	loop_leave(stream->context);
	return result;
}

/* Like an endless kernel, an endless loop ends with its stream's context or by a fault. */
CUresult conditional_run(const struct conditional_work *conditional, struct stream *stream)
{
	const uint32_t *condition = &conditional->values->values[conditional->handle - 1];
	uint32_t value = __atomic_load_n(condition, __ATOMIC_ACQUIRE);

	if (conditional->type == CU_GRAPH_COND_TYPE_WHILE)
		return loop_run(&conditional->bodies[0], condition, stream);
	if (conditional->type == CU_GRAPH_COND_TYPE_IF)
		value = value ? 0 : 1;
	return value < conditional->n_bodies ? body_run(&conditional->bodies[value], stream)
					     : CUDA_SUCCESS;
}

/* ---- steps */

/* Graphs nest. NOLINTBEGIN(misc-no-recursion) */

struct step *steps_find(struct step *steps, size_t n, const struct node *node)
{
	struct step *found = NULL;

	for (size_t i = 0; i < n && !found; i++) {
		if (steps[i].node == node)
			return &steps[i];
		if (steps[i].work.kind != WORK_CONDITIONAL)
			continue;
		for (uint32_t k = 0; k < steps[i].work.conditional.n_bodies && !found; k++) {
			const struct body *body = &steps[i].work.conditional.bodies[k];

			found = steps_find(body->steps, body->n_steps, node);
		}
	}
	return found;
}

void steps_attach(struct step *steps, size_t n, struct condition_values *values)
{
	for (size_t i = 0; i < n; i++) {
		struct work *work = &steps[i].work;

		if (work->kind == WORK_KERNEL) {
			condition_values_unref(work->kernel.conditions);
			work->kernel.conditions = condition_values_ref(values);
		}
		if (work->kind != WORK_CONDITIONAL)
			continue;
		condition_values_unref(work->conditional.values);
		work->conditional.values = condition_values_ref(values);
		for (uint32_t k = 0; k < work->conditional.n_bodies; k++)
			steps_attach(work->conditional.bodies[k].steps,
				work->conditional.bodies[k].n_steps, values);
	}
}

static CUgraphExecUpdateResult bodies_compare(
	const struct conditional_work *work, const struct conditional_work *from)
{
	CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;

	if (work->type != from->type || work->n_bodies != from->n_bodies)
		return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	for (uint32_t i = 0; i < work->n_bodies && result == CU_GRAPH_EXEC_UPDATE_SUCCESS; i++)
		result = steps_compare(work->bodies[i].steps, work->bodies[i].n_steps,
			from->bodies[i].steps, from->bodies[i].n_steps);
	return result;
}

CUgraphExecUpdateResult steps_compare(
	const struct step *steps, size_t n, const struct step *from, size_t n_from)
{
	CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;

	if (n != n_from)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (size_t i = 0; i < n && result == CU_GRAPH_EXEC_UPDATE_SUCCESS; i++) {
		if (steps[i].type != from[i].type)
			result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		else if (steps[i].work.kind == WORK_CONDITIONAL)
			result = bodies_compare(
				&steps[i].work.conditional, &from[i].work.conditional);
	}
	return result;
}

void steps_exchange(struct step *steps, struct step *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct conditional_work *to = &steps[i].work.conditional;
		struct work work = from[i].work;

		if (work.kind != WORK_CONDITIONAL) {
			from[i].work = steps[i].work;
			steps[i].work = work;
			continue;
		}
		to->handle = work.conditional.handle;
		to->context = work.conditional.context;
		for (uint32_t k = 0; k < to->n_bodies; k++)
			steps_exchange(to->bodies[k].steps, work.conditional.bodies[k].steps,
				to->bodies[k].n_steps);
	}
}

/* NOLINTEND(misc-no-recursion) */
