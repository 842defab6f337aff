/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launch trains: cached chain graphs, one of each length a stream. A worker.
 *
 * A stream has graphs of its own, as launches of one graph wait for each other
 * even in different streams. A graph is worth making once its length was wanted
 * a few times.
 *
 * Invariant: every node of a graph is set, or known to be as it has to be,
 * before the graph is launched; so nothing of an earlier run can run again.
 */

#include "server/driver/graph_end.h"
#include "server/session/fault.h"
#include "server/session/reply.h"
#include "server/session/session.h"
#include "server/driver/session_device.h"
#include "server/session/session_room.h"
#include "server/driver/blocked_streams.h"
#include "launch_batch.h"

/* Lengths are powers of two from 2 on: the rest of a run goes in shorter ones. */
#define LENGTHS 5
#define LENGTH(i) (2u << (i))
_Static_assert(LENGTH(LENGTHS - 1) == TRAIN_CARS_MAX, "the longest");

/* Making a graph costs what it saves in about so many runs. */
#define WANTED_MIN 4

/* Streams of a session with graphs: each takes memory of the driver's. */
#define STORES_MAX 64

/* A chain that can be launched; `graph' gives its nodes their names. */
struct chain {
	CUgraph graph;
	CUgraphExec exec; /* NULL: not made yet */
	struct graph_end *ending;
	CUgraphNode nodes[TRAIN_CARS_MAX];
	unsigned n_wanted;
	size_t params_max; /* of a node, as it is charged */
};

struct train_store {
	struct train_store *next; /* of the session */
	struct stream *stream;
	struct session *session;
	struct chain chains[LENGTHS];
};

/* Room for what the driver takes parameters by. */
struct car_params {
	size_t size;
	void *extra[5];
};

static void **car_extra(const struct car *car, struct car_params *params)
{
	*params = (struct car_params){
		.size = car->params_size,
		.extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)car->params,
			CU_LAUNCH_PARAM_BUFFER_SIZE, &params->size, CU_LAUNCH_PARAM_END},
	};
	return car->params_size > 0 ? params->extra : NULL;
}

CUresult car_launch(const struct car *car, CUstream real)
{
	struct car_params params;

	return cuda.cuLaunchKernel(car->function, car->grid[0], car->grid[1], car->grid[2],
		car->block[0], car->block[1], car->block[2], car->shared_bytes, real, NULL,
		car_extra(car, &params));
}

static CUDA_KERNEL_NODE_PARAMS node_params(const struct car *car, struct car_params *params)
{
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = car->function,
		.gridDimX = car->grid[0],
		.gridDimY = car->grid[1],
		.gridDimZ = car->grid[2],
		.blockDimX = car->block[0],
		.blockDimY = car->block[1],
		.blockDimZ = car->block[2],
		.sharedMemBytes = car->shared_bytes,
		.extra = car_extra(car, params),
	};
}

/* ---- chains */

static void chain_fini(struct chain *chain, const struct place *place, bool is_lost)
{
	if (chain->ending)
		graph_end(
			chain->ending, chain->exec, chain->graph, place->device->context, is_lost);
	*chain = (struct chain){0};
}

/* The chain has `n' nodes for parameters of that size. False: there is no memory for them. */
static bool chain_pay(struct chain *chain, unsigned n, size_t params_size)
{
	if (likely(params_size <= chain->params_max))
		return true;
	if (!account_keep(chain->ending, n * KEPT_PARAMS(params_size - chain->params_max)))
		return false;
	chain->params_max = params_size;
	return true;
}

/* It is not worth waiting for room. */
static CUresult chain_make(struct session *session, struct chain *chain, const struct place *place,
	const struct car *cars, unsigned n)
{
	const struct room_part part = {1, n};
	CUresult result;

	chain->ending = graph_end_new(session->account);
	if (!chain->ending)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = account_keep(chain->ending, n * (uint64_t)(KEPT_NODE + KEPT_EDGE))
			 ? cuda.cuGraphCreate(&chain->graph, 0)
			 : CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct car_params room;
		CUDA_KERNEL_NODE_PARAMS params = node_params(&cars[i], &room);

		if (!chain_pay(chain, n, cars[i].params_size))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else
			result = cuda.cuGraphAddKernelNode_v2(&chain->nodes[i], chain->graph,
				i > 0 ? &chain->nodes[i - 1] : NULL, i > 0, &params);
	}
	if (result == CUDA_SUCCESS)
		result = graph_end_make(chain->ending, session, place->device, &part, 1,
			chain->graph, 0, &chain->exec);
	if (result != CUDA_SUCCESS)
		chain_fini(chain, place, result_is_fault(result));
	return result;
}

static CUresult chain_set(struct chain *chain, const struct car *cars, unsigned n)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct car_params room;
		CUDA_KERNEL_NODE_PARAMS params = node_params(&cars[i], &room);

		if (unlikely(!chain_pay(chain, n, cars[i].params_size)))
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = cuda.cuGraphExecKernelNodeSetParams_v2(
			chain->exec, chain->nodes[i], &params);
	}
	return result;
}

/* CUDA_ERROR_NOT_READY: no graph of this length yet. After any error nothing was launched. */
static CUresult chain_run(struct session *session, struct chain *chain, const struct stream *stream,
	const struct car *cars, unsigned n)
{
	CUresult result;

	if (!chain->exec && ++chain->n_wanted < WANTED_MIN)
		return CUDA_ERROR_NOT_READY;
	result = chain->exec ? chain_set(chain, cars, n)
			     : chain_make(session, chain, stream->place, cars, n);
	return result == CUDA_SUCCESS ? cuda.cuGraphLaunch(chain->exec, stream->real) : result;
}

/* ---- a stream's */

static struct train_store *store_get(struct session *session, struct stream *stream)
{
	struct train_store *store = stream->trains;

	if (likely(store != NULL) || session->n_train_stores >= STORES_MAX)
		return store;
	store = account_alloc(session->account, sizeof(*store), 0);
	if (!store)
		return NULL;
	store->session = session;
	store->stream = stream;
	store->next = session->train_stores;
	session->train_stores = store;
	session->n_train_stores++;
	stream->trains = store;
	return store;
}

/* Ends the stream's graphs. */
static void train_store_free(struct stream *stream, bool is_lost)
{
	struct train_store *store = stream->trains;
	struct train_store **link;

	if (!store)
		return;
	for (link = &store->session->train_stores; *link != store;)
		link = &(*link)->next;
	*link = store->next;
	store->session->n_train_stores--;
	stream->trains = NULL;
	for (unsigned i = 0; i < LENGTHS; i++)
		chain_fini(&store->chains[i], stream->place, is_lost);
	account_free(store);
}

/* Ends the graphs of all streams: kernels that they know are about to go. */
static void train_stores_free(struct session *session)
{
	while (session->train_stores)
		train_store_free(session->train_stores->stream, fault_get() != CUDA_SUCCESS);
}

/* ---- leaving */

static void leave_one_by_one(
	struct session *session, const struct car *cars, unsigned n, CUstream real)
{
	for (unsigned i = 0; i < n; i++) {
		CUresult result = reply_untold(session);

		if (result == CUDA_SUCCESS)
			result = fault_note(session, car_launch(&cars[i], real));
		reply_late(session, result);
	}
}

/* The longest chain that `n' launches fill. */
static unsigned length_index(unsigned n)
{
	return 30u - (unsigned)__builtin_clz(n);
}

/* More than one. */
static void leave_together(struct session *session, struct train *train, unsigned n)
{
	struct train_store *store = NULL;
	unsigned done = 0;

	/* To make one, and sometimes to set one, waits for a stream that stands still. */
	if (likely(!standing_any()))
		store = store_get(session, train->stream);
	while (store && n - done > 1) {
		unsigned index = length_index(n - done), length = LENGTH(index);
		const struct car *cars = &train->cars[done];
		CUresult result =
			chain_run(session, &store->chains[index], train->stream, cars, length);

		/* Whatever is wrong with one of them, it says by itself; those before it run. */
		if (result != CUDA_SUCCESS)
			leave_one_by_one(session, cars, length, train->real);
		done += length;
	}
	leave_one_by_one(session, &train->cars[done], n - done, train->real);
}

_hot_ void train_leave(struct session *session)
{
	struct train *train = session->train;
	unsigned n = train->n;

	train->n = 0;
	if (n > 1)
		leave_together(session, train, n);
	else
		leave_one_by_one(session, train->cars, n, train->real);
}

void train_add(struct session *session, struct stream *stream, CUstream real, const struct car *car)
{
	struct train *train = session->train;

	train->stream = stream;
	train->real = real;
	train->cars[train->n++] = *car;
	if (train->n == TRAIN_CARS_MAX)
		train_leave(session);
}

static void train_begin(struct session *session, void *part)
{
	session->train = part;
}

const struct session_room trains_room = {
	.size = sizeof(struct train),
	.begin = train_begin,
	.stream_end = train_store_free,
	.code_end = train_stores_free,
};
