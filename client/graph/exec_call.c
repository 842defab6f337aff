/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The calls of executable graphs: the program's host functions, and this library's
 * copies of memory that the GPU cannot access. Any thread of the application; the
 * functions run in the thread of callback.c.
 *
 * Invariant: each launch queues its calls with their parameters at that time, so
 * later changes of the graph do not affect earlier launches.
 */

#include "exec.h"
#include "client/stream/callback.h"

static uint8_t is_taken[WIRE_GRAPH_CALLS_MAX];
static uint32_t next_call;
static uint64_t last_launch;

CUresult call_take(uint32_t *ret_call)
{
	for (uint32_t i = 0; i < WIRE_GRAPH_CALLS_MAX; i++) {
		uint32_t call = (next_call + i) % WIRE_GRAPH_CALLS_MAX;

		if (is_taken[call])
			continue;
		is_taken[call] = true;
		next_call = call + 1;
		*ret_call = call;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void call_give(uint32_t call)
{
	is_taken[call] = false;
}

struct move {
	struct box box;
	struct box_chunk chunk;
};

static void run_move(void *data)
{
	const struct move *move = data;

	box_chunk_move(&move->box, &move->chunk);
}

static void run_nothing(_unused_ void *data)
{
}

static CUresult call_expect(const struct exec_call *call, uint64_t launch)
{
	const struct node_op *op = &call->node->op;
	struct move *move;

	if (op->type == CU_GRAPH_NODE_TYPE_HOST)
		return callback_expect(call->call, launch, op->host.function, op->host.data, false);
	/* The GPU asks for disabled nodes too. */
	if (call->node->is_disabled)
		return callback_expect(call->call, launch, run_nothing, NULL, false);
	move = malloc(sizeof(*move));
	if (!move)
		return CUDA_ERROR_OUT_OF_MEMORY;
	move->box = op->copy.box;
	move->chunk = call->chunk;
	return callback_expect(call->call, launch, run_move, move, true);
}

CUresult calls_expect(const struct exec *exec, uint64_t *ret_launch)
{
	CUresult result = CUDA_SUCCESS;

	*ret_launch = ++last_launch;
	for (uint32_t i = 0; i < exec->n_calls && result == CUDA_SUCCESS; i++)
		result = call_expect(&exec->calls[i], *ret_launch);
	if (result != CUDA_SUCCESS)
		calls_forget(*ret_launch);
	return result;
}

void calls_forget(uint64_t launch)
{
	callbacks_forget(launch);
}
