/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loops of graphs in several streams at the same time. Driver 580 ends a context in which they
 * run (server/driver/driver_facts.h); as a client of the service the program runs through.
 *
 *   graph_loops [STREAMS [ROUNDS [LAUNCHES]]]
 *
 * Runs: for a test of its own
 */

#define NAME "graph_loops"
#include "../helpers/conditional.h"

#define STREAMS_MAX 64

struct track {
	cudaStream_t stream;
	cudaGraphExec_t exec;
	int *left, found;
};

/* Counts the track's word down to 0. */
static struct track track_new(void)
{
	cudaGraph_t graph = graph_new();
	cudaGraphConditionalHandle handle = handle_new(graph, 1);
	struct track track = {0};
	void *args[] = {&track.left, &handle};

	CHECK(cudaMalloc(&track.left, sizeof(int)));
	CHECK(cudaStreamCreateWithFlags(&track.stream, cudaStreamNonBlocking));
	cond_node(graph, NULL, handle, cudaGraphCondTypeWhile, 1);
	kernel_node(bodies[0], NULL, (void *)countdown_kernel, args);
	track.exec = instantiate(graph);
	CHECK(cudaGraphDestroy(graph));
	return track;
}

static void track_launch(struct track *track, const int *rounds)
{
	CHECK(cudaMemcpyAsync(
		track->left, rounds, sizeof(int), cudaMemcpyHostToDevice, track->stream));
	CHECK(cudaGraphLaunch(track->exec, track->stream));
}

static void track_end(struct track *track)
{
	CHECK(cudaMemcpyAsync(
		&track->found, track->left, sizeof(int), cudaMemcpyDeviceToHost, track->stream));
	CHECK(cudaStreamSynchronize(track->stream));
	if (track->found != 0)
		FAIL("%d rounds are left", track->found);
	CHECK(cudaGraphExecDestroy(track->exec));
	CHECK(cudaStreamDestroy(track->stream));
	CHECK(cudaFree(track->left));
}

static int argument(int argc, char **argv, int i, int otherwise)
{
	return argc > i ? atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
	const int n = argument(argc, argv, 1, 4), rounds = argument(argc, argv, 2, 500);
	const int launches = argument(argc, argv, 3, 10);
	struct track tracks[STREAMS_MAX];

	if (n < 1 || n > STREAMS_MAX)
		FAIL("1 to %d streams", STREAMS_MAX);
	for (int i = 0; i < n; i++)
		tracks[i] = track_new();
	for (int k = 0; k < launches; k++)
		for (int i = 0; i < n; i++)
			track_launch(&tracks[i], &rounds);
	for (int i = 0; i < n; i++)
		track_end(&tracks[i]);
	printf(NAME ": ok\n");
	return 0;
}
