/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The output of kernels is on standard output when the program has synchronised, in every way:
 * all of it, once, between the host's output before and after. `--rounds N' repeats it, so that
 * several programs at once would notice a line of another. `--leave' is killed after kernels have
 * printed, before any synchronisation: its output is dropped.
 */

#define NAME "print"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "../helpers/program.h"

enum {
	THREADS = 64,
	TEXT_MAX = 1 << 16
};

static __global__ void plain(void)
{
	printf("kernel\n");
}

static __global__ void silent(void)
{
}

static __global__ void lines(int tag)
{
	printf("line %d of %d is %.2f %s\n", (int)threadIdx.x, tag, threadIdx.x * 0.25, "text");
}

static int tag;
static int *device;
static cudaStream_t stream;
static cudaEvent_t event;

static void by_device(void)
{
	CHECK(cudaDeviceSynchronize());
}

static void by_stream(void)
{
	CHECK(cudaStreamSynchronize(stream));
}

static void by_event(void)
{
	CHECK(cudaEventRecord(event, stream));
	CHECK(cudaEventSynchronize(event));
}

static void by_copy(void)
{
	int word;

	CHECK(cudaStreamSynchronize(stream));
	lines<<<1, 1>>>(tag);
	CHECK(cudaMemcpy(&word, device, sizeof(word), cudaMemcpyDeviceToHost));
}

static void launch_plainly(void)
{
	plain<<<1, 1, 0, stream>>>();
	lines<<<1, THREADS, 0, stream>>>(tag);
	CHECK(cudaGetLastError());
}

static cudaGraphExec_t captured(void (*launch)(void))
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	launch();
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

static void launch_graph(void)
{
	cudaGraphExec_t exec = captured(launch_plainly);

	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaGraphExecDestroy(exec));
}

static void launch_silently(void)
{
	silent<<<1, 1, 0, stream>>>();
	silent<<<1, 1, 0, stream>>>();
	CHECK(cudaGetLastError());
}

/* The kernels that print come into an executable graph without such kernels. */
static void launch_updated_graph(void)
{
	cudaGraphExec_t exec = captured(launch_silently);
	cudaGraphExecUpdateResultInfo info;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	launch_plainly();
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphExecUpdate(exec, graph, &info));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaGraphExecDestroy(exec));
}

/* Runs with standard output in a file; reads the file, with a NUL at the end. */
static size_t caught(void (*launch)(void), void (*synchronise)(void), char *text)
{
	char name[] = "/tmp/print-XXXXXX";
	int file = mkstemp(name), before = dup(STDOUT_FILENO);
	ssize_t n;

	unlink(name);
	fflush(stdout);
	dup2(file, STDOUT_FILENO);
	printf("before\n");
	launch();
	synchronise();
	printf("after\n");
	fflush(stdout);
	dup2(before, STDOUT_FILENO);
	close(before);
	n = pread(file, text, TEXT_MAX - 1, 0);
	close(file);
	text[n > 0 ? n : 0] = '\0';
	return (size_t)n;
}

/* Each line once, in any order of the threads, and nothing else. */
static bool is_right(const char *text, bool has_copy)
{
	size_t want = strlen("before\nkernel\nafter\n");
	char line[100];

	for (int i = 0; i < THREADS; i++) {
		snprintf(line, sizeof(line), "line %d of %d is %.2f text\n", i, tag, i * 0.25);
		want += strlen(line) * (has_copy && i == 0 ? 2 : 1);
		if (!strstr(text, line))
			return false;
	}
	return strlen(text) == want && !strncmp(text, "before\nkernel\nline", 18) &&
	       !strcmp(text + want - 6, "after\n");
}

static __global__ void say_and_tell(volatile int *word)
{
	printf("left behind\n");
	*word = 1;
}

static void CUDART_CB nothing(void *)
{
}

/* After a host function, so that the service checks whether all has ended, and does not wait. */
static int leave(void)
{
	volatile int *word;

	CHECK(cudaMallocHost(&word, sizeof(*word)));
	*word = 0;
	CHECK(cudaLaunchHostFunc(0, nothing, NULL));
	say_and_tell<<<1, 1>>>(word);
	CHECK(cudaGetLastError());
	while (!*word)
		usleep(1000);
	return raise(SIGKILL);
}

int main(int argc, char **argv)
{
	static const struct {
		void (*launch)(void), (*synchronise)(void);
	} ways[] = {{launch_plainly, by_device}, {launch_plainly, by_stream},
		{launch_plainly, by_event}, {launch_plainly, by_copy}, {launch_graph, by_stream},
		{launch_updated_graph, by_device}};
	const bool leaves = argc == 2 && !strcmp(argv[1], "--leave");
	struct options options = options_read(leaves ? 1 : argc, argv);
	static char text[TEXT_MAX];
	bool right = true;

	if (leaves)
		return leave();
	tag = (int)getpid();
	CHECK(cudaMalloc(&device, sizeof(int)));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&event));
	for (long round = 0; round < options.rounds && right; round++)
		for (int way = 0; way < 6 && right; way++) {
			caught(ways[way].launch, ways[way].synchronise, text);
			right = is_right(text, ways[way].synchronise == by_copy);
			if (!right)
				printf(NAME ": way %d brought %zu bytes: [%s]\n", way, strlen(text),
					text);
		}
	CHECK(cudaEventDestroy(event));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(device));
	if (!right)
		return 1;
	printf(NAME ": ok\n");
	return 0;
}
