/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures how fast operations of one process are: launches, copies, allocations and so on.
 *
 *   bench serve           measures what the lines of its standard input ask for
 *   bench WHAT SECONDS    measures once
 *
 * First prints `start_ms', the time from the first CUDA call to the first result on the host. A
 * line `WHAT SECONDS AT [SETTLE WORK PAUSE]' begins to work at second AT of the epoch, so that
 * several processes do so at the same time. It measures the rounds that begin SETTLE seconds later
 * or after that. If PAUSE is not 0, it sleeps so long after each WORK seconds. WHAT is a row of
 * `measures' or KIND_DIRECTION_BYTES, such as pinned_in_4096 for copies to the device. Each answer
 * consists of lines key=value and ends with `done':
 *
 *   us, p99_us    the time of a round: median, 99th percentile
 *   first_us      the median time of the first round after a pause; absent without pauses
 *   enqueue_us    the median time in which the thread has enqueued a round
 *   per_s         rounds in a second, with the time until the last one is done
 *
 * tests/bench describes the measurements that consist of these.
 *
 * Runs: for a test of its own
 */

#define NAME "bench"
#include "../helpers/program.h"

enum {
	SAMPLES_MAX = 1 << 22,
	BURST = 64,
	NODES = 16,
	BLOCKS = 8,
	STEP_BLOCKS = 64,
	STEP_BYTES = 1 << 16,
	/* Cycles from one dependent multiply-add to the next. */
	STEP_CYCLES = 4
};

#define MIB ((size_t)1 << 20)
#define COPY_MAX (256 * MIB)

struct measure {
	const char *name;
	/* Enqueues a round. */
	void (*enqueue)(void);
	bool is_waiting; /* for the end of each round */
};

static struct {
	char *host, *device;
	size_t size;
	cudaMemcpyKind kind;
} copying;

/* When a line wants it measured. */
struct plan {
	double seconds, at, settle, work, pause;
};

static char *pageable, *pinned, *device_memory, *sent, *received;
static cudaGraphExec_t graph;
static cudaEvent_t event;
static int kernel_steps, clock_khz;

static __global__ void store(int *where, int value)
{
	*where = value;
}

static __global__ void empty(void)
{
}

/* Takes the same work in each process: a clock would also count the time of others. */
static __global__ void compute(int steps, int *where)
{
	int value = threadIdx.x;

	for (int i = 0; i < steps; i++)
		value = value * value + i;
	if (value == 1 << 30)
		*where = value;
}

static int compare(const void *left, const void *right)
{
	float a = *(const float *)left, b = *(const float *)right;

	return (a > b) - (a < b);
}

/* The time to the first result: memory, an image, a launch and a copy back. */
static double start_ms(void)
{
	double began = now_s();
	int *data = NULL, result = 0;

	CHECK(cudaMalloc(&data, sizeof(*data)));
	store<<<1, 1>>>(data, 42);
	CHECK(cudaMemcpy(&result, data, sizeof(result), cudaMemcpyDeviceToHost));
	if (result != 42)
		FAIL("the first result is %d, not 42", result);
	CHECK(cudaFree(data));
	return (now_s() - began) * 1e3;
}

/* ---- what a round enqueues */

static void enqueue_launch(void)
{
	empty<<<1, 1>>>();
}

static void enqueue_burst(void)
{
	for (int i = 0; i < BURST; i++)
		empty<<<1, 1>>>();
}

static void enqueue_kernel(void)
{
	compute<<<BLOCKS, 32>>>(kernel_steps, NULL);
}

static void enqueue_graph(void)
{
	CHECK(cudaGraphLaunch(graph, NULL));
}

/* As a process of MPI: kernels, a message out, another one in, and a kernel that reads it. */
static void enqueue_step(void)
{
	for (int i = 0; i < 3; i++)
		compute<<<STEP_BLOCKS, 256>>>(kernel_steps, NULL);
	CHECK(cudaMemcpyAsync(sent, device_memory, STEP_BYTES, cudaMemcpyDeviceToHost));
	CHECK(cudaDeviceSynchronize());
	memcpy(received, sent, STEP_BYTES);
	CHECK(cudaMemcpyAsync(device_memory, received, STEP_BYTES, cudaMemcpyHostToDevice));
	compute<<<STEP_BLOCKS, 256>>>(kernel_steps / 4, NULL);
}

static void ask_event(void)
{
	for (int i = 0; i < BURST; i++)
		CHECK(cudaEventQuery(event));
}

static void alloc_and_free(void)
{
	void *memory;

	CHECK(cudaMalloc(&memory, MIB));
	CHECK(cudaFree(memory));
}

static void copy(void)
{
	bool is_in = copying.kind == cudaMemcpyHostToDevice;

	CHECK(cudaMemcpy(is_in ? copying.device : copying.host,
		is_in ? copying.host : copying.device, copying.size, copying.kind));
}

static const struct measure measures[] = {
	{"sync", enqueue_launch, true},
	{"burst", enqueue_burst, true},
	{"sustained", enqueue_burst, false},
	{"kernel20", enqueue_kernel, true},
	{"kernel100", enqueue_kernel, true},
	{"graph", enqueue_graph, true},
	{"step", enqueue_step, true},
	{"query", ask_event, false},
	{"alloc", alloc_and_free, false},
};
static const struct measure copies = {"copy", copy, false};

/* ---- what they need */

static void graph_make(void)
{
	cudaGraph_t made;
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < NODES; i++)
		empty<<<1, 1, 0, stream>>>();
	CHECK(cudaStreamEndCapture(stream, &made));
	CHECK(cudaGraphInstantiate(&graph, made, 0));
	CHECK(cudaGraphDestroy(made));
	CHECK(cudaStreamDestroy(stream));
}

static void step_prepare(void)
{
	kernel_steps = (int)(100.0 * clock_khz / 1000 / STEP_CYCLES);
	if (sent)
		return;
	if (!device_memory)
		CHECK(cudaMalloc(&device_memory, STEP_BYTES));
	CHECK(cudaMallocHost(&sent, STEP_BYTES));
	CHECK(cudaMallocHost(&received, STEP_BYTES));
}

/* Copies need memory that nothing else needs, so it is made late. */
static bool copies_prepare(const char *what)
{
	char kind[16], direction[8];

	if (sscanf(what, "%15[a-z]_%7[a-z]_%zu", kind, direction, &copying.size) != 3 ||
		copying.size > COPY_MAX)
		return false;
	if (!pinned) {
		CHECK(cudaFree(device_memory));
		CHECK(cudaMalloc(&device_memory, COPY_MAX));
		CHECK(cudaMallocHost(&pinned, COPY_MAX));
		pageable = (char *)malloc(COPY_MAX);
		memset(pageable, 1, COPY_MAX);
		memset(pinned, 2, COPY_MAX);
	}
	copying.device = device_memory;
	copying.host = strcmp(kind, "pinned") ? pageable : pinned;
	copying.kind = strcmp(direction, "in") ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
	return true;
}

static const struct measure *measure_prepare(const char *what)
{
	int us = 0;

	if (!strcmp(what, "graph") && !graph)
		graph_make();
	if (!strcmp(what, "query") && !event) {
		CHECK(cudaEventCreate(&event));
		CHECK(cudaEventRecord(event));
		CHECK(cudaEventSynchronize(event));
	}
	if (!strcmp(what, "step"))
		step_prepare();
	if (sscanf(what, "kernel%d", &us) == 1)
		kernel_steps = (int)((double)us * clock_khz / 1000 / STEP_CYCLES);
	for (const struct measure &measure : measures) {
		if (!strcmp(measure.name, what))
			return &measure;
	}
	return copies_prepare(what) ? &copies : NULL;
}

/* ---- measuring */

/* The times of rounds, in microseconds. */
struct times {
	float *whole, *enqueued, *first;
	long n, n_first;
};

static float quantile(float *times, long n, int per_cent)
{
	qsort(times, (size_t)n, sizeof(*times), compare);
	return times[n * per_cent / 100];
}

static void report(struct times *times, double took_s)
{
	printf("us=%.3f\np99_us=%.3f\nenqueue_us=%.3f\n", quantile(times->whole, times->n, 50),
		quantile(times->whole, times->n, 99), quantile(times->enqueued, times->n, 50));
	if (times->n_first)
		printf("first_us=%.3f\n", quantile(times->first, times->n_first, 50));
	printf("per_s=%.3f\ndone\n", (double)times->n / took_s);
	fflush(stdout);
}

/* One round, from `before'; returns when it was over. */
static double round_run(
	const struct measure *measure, struct times *times, double before, bool is_first)
{
	double after;

	measure->enqueue();
	times->enqueued[times->n] = (float)((now_s() - before) * 1e6);
	if (measure->is_waiting)
		CHECK(cudaDeviceSynchronize());
	after = now_s();
	times->whole[times->n] = (float)((after - before) * 1e6);
	if (is_first)
		times->first[times->n_first++] = times->whole[times->n];
	times->n++;
	return after;
}

static void measure_run(const struct measure *measure, const struct plan *plan, struct times *times)
{
	double before = now_s(), resumed = before, began = before + plan->settle;
	bool is_first = false, is_settled = false;

	do {
		if (!is_settled) {
			times->n = times->n_first = 0;
			is_settled = before >= began;
			began = before >= began ? before : began;
		}
		before = round_run(measure, times, before, is_first);
		is_first = plan->pause > 0 && before - resumed >= plan->work;
		if (is_first) {
			usleep((useconds_t)(plan->pause * 1e6));
			resumed = before = now_s();
		}
	} while (!is_settled || (times->n < SAMPLES_MAX && before - began < plan->seconds));
	CHECK(cudaDeviceSynchronize());
	report(times, now_s() - began);
}

static void measure_once(const char *what, const struct plan *plan)
{
	const struct measure *measure = measure_prepare(what);
	struct times times = {.n = 0};

	if (!measure)
		FAIL("cannot measure %s", what);
	times.whole = (float *)malloc(SAMPLES_MAX * sizeof(float));
	times.enqueued = (float *)malloc(SAMPLES_MAX * sizeof(float));
	times.first = (float *)malloc(SAMPLES_MAX * sizeof(float));
	/* The first rounds load code and touch memory. */
	for (int i = 0; i < 3; i++)
		measure->enqueue();
	CHECK(cudaDeviceSynchronize());
	sleep_until(plan->at);
	measure_run(measure, plan, &times);
	free(times.whole);
	free(times.enqueued);
	free(times.first);
}

int main(int argc, char **argv)
{
	char line[128], what[64];
	struct plan plan = {0};

	if (argc != 3 && (argc != 2 || strcmp(argv[1], "serve"))) {
		fprintf(stderr, "usage: " NAME " serve | WHAT SECONDS\n");
		return 2;
	}
	printf("start_ms=%.3f\n", start_ms());
	fflush(stdout);
	CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
	if (argc == 3) {
		plan.seconds = atof(argv[2]);
		measure_once(argv[1], &plan);
	}
	while (argc == 2 && fgets(line, sizeof(line), stdin)) {
		plan = (struct plan){0};
		if (sscanf(line, "%63s %lf %lf %lf %lf %lf", what, &plan.seconds, &plan.at,
			    &plan.settle, &plan.work, &plan.pause) < 3)
			FAIL("cannot read %s", line);
		measure_once(what, &plan);
	}
	printf(NAME ": ok\n");
	return 0;
}
