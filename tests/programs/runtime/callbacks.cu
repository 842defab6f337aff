/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Host functions and callbacks: they run in stream order, after earlier work and before later
 * work, on every kind of stream. They may not call CUDA, but may take a lock that another
 * thread holds while it calls CUDA.
 */

#define NAME "callbacks"
#include <mutex>
#include <unistd.h>

#include "../helpers/program.h"

enum {
	STREAMS = 4,
	MANY = 400, /* per stream */
	SLOW_US = 30000,
	LARGE = 48 << 20
};

static __global__ void store(int *where, int value)
{
	*where = value;
}

static void fail(const char *what)
{
	printf(NAME ": %s\n", what);
	exit(1);
}

struct row {
	int next, n_wrong;
};

struct entry {
	struct row *row;
	int number;
};

static void append(void *data)
{
	struct entry *entry = (struct entry *)data;

	if (entry->row->next != entry->number)
		entry->row->n_wrong++;
	entry->row->next++;
}

static void many_in_order(void)
{
	static struct entry entries[STREAMS][MANY];
	struct row rows[STREAMS] = {};
	cudaStream_t streams[STREAMS];
	int *word;

	CHECK(cudaMalloc(&word, sizeof(int)));
	for (int s = 0; s < STREAMS; s++)
		CHECK(cudaStreamCreateWithFlags(
			&streams[s], s % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
	for (int i = 0; i < MANY; i++)
		for (int s = 0; s < STREAMS; s++) {
			entries[s][i].row = &rows[s];
			entries[s][i].number = i;
			if (i % 16 == 0)
				store<<<1, 1, 0, streams[s]>>>(word, i);
			CHECK(cudaLaunchHostFunc(streams[s], append, &entries[s][i]));
		}
	/* Destroyed with work left, which is still done. */
	CHECK(cudaStreamDestroy(streams[0]));
	CHECK(cudaDeviceSynchronize());
	for (int s = 0; s < STREAMS; s++)
		if (rows[s].next != MANY || rows[s].n_wrong)
			fail("host functions were lost or out of order");
	for (int s = 1; s < STREAMS; s++)
		CHECK(cudaStreamDestroy(streams[s]));
	CHECK(cudaFree(word));
}

static volatile int flag;

static void slowly(void *data)
{
	usleep(SLOW_US);
	flag = *(int *)data;
}

static int read_word(const int *word, cudaStream_t stream)
{
	int value;

	CHECK(cudaMemcpyAsync(&value, word, sizeof(value), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	return value;
}

static void later_work_waits(void)
{
	static int one = 1;
	cudaStream_t stream, aside;
	cudaEvent_t event;
	int *word;

	flag = 0;
	CHECK(cudaMalloc(&word, sizeof(int)));
	CHECK(cudaMemset(word, 0, sizeof(int)));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&event));
	CHECK(cudaLaunchHostFunc(stream, slowly, &one));
	store<<<1, 1, 0, stream>>>(word, 7);
	CHECK(cudaEventRecord(event, stream));
	if (read_word(word, aside) != 0 && !flag)
		fail("a kernel did not wait for the host function before it");
	if (!flag &&
		(cudaEventQuery(event) != cudaErrorNotReady ||
			cudaStreamQuery(stream) != cudaErrorNotReady) &&
		!flag)
		fail("an event did not wait for the host function before it");
	CHECK(cudaStreamWaitEvent(aside, event, 0));
	if (read_word(word, aside) != 7 || !flag)
		fail("another stream did not wait for the host function");
	CHECK(cudaEventSynchronize(event));
	CHECK(cudaEventDestroy(event));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaStreamDestroy(aside));
	CHECK(cudaFree(word));
}

/* A host function on one kind of stream, and a check of the flag through the other. */
static void default_stream_rules(void)
{
	static int two = 2, three = 3;
	cudaStream_t stream;
	int *word;

	CHECK(cudaMalloc(&word, sizeof(int)));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaLaunchHostFunc(stream, slowly, &two));
	store<<<1, 1>>>(word, 2);
	CHECK(cudaStreamSynchronize(0));
	if (flag != 2)
		fail("the default stream did not wait for a host function");
	CHECK(cudaLaunchHostFunc(0, slowly, &three));
	store<<<1, 1, 0, stream>>>(word, 3);
	if (read_word(word, stream) != 3 || flag != 3)
		fail("a stream did not wait for a host function of the default stream");
	CHECK(cudaLaunchHostFunc(cudaStreamPerThread, slowly, &two));
	CHECK(cudaStreamSynchronize(cudaStreamPerThread));
	if (flag != 2)
		fail("the thread's own stream did not wait");
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(word));
}

static void try_cuda(void *data)
{
	cudaError_t *errors = (cudaError_t *)data;
	void *memory;

	errors[0] = cudaMalloc(&memory, 16);
	errors[1] = cudaDeviceSynchronize();
	errors[2] = cudaStreamSynchronize(0);
}

static void cuda_inside_is_refused(void)
{
	cudaError_t errors[3] = {};

	CHECK(cudaLaunchHostFunc(0, try_cuda, errors));
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < 3; i++)
		if (errors[i] != cudaErrorNotPermitted) {
			printf(NAME ": call %d in a host function: %s\n", i,
				cudaGetErrorName(errors[i]));
			exit(1);
		}
}

struct told {
	cudaStream_t stream;
	cudaError_t status;
	int n;
};

static void on_stream(cudaStream_t stream, cudaError_t status, void *data)
{
	struct told *told = (struct told *)data;

	told->stream = stream;
	told->status = status;
	told->n++;
}

static void callbacks_are_told(void)
{
	struct told told = {};
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamAddCallback(stream, on_stream, &told, 0));
	CHECK(cudaStreamAddCallback(stream, on_stream, &told, 0));
	CHECK(cudaStreamSynchronize(stream));
	if (told.n != 2 || told.stream != stream || told.status != cudaSuccess)
		fail("a callback was told something wrong");
	if (cudaStreamAddCallback(stream, on_stream, &told, 1) != cudaErrorInvalidValue ||
		cudaLaunchHostFunc(stream, NULL, NULL) != cudaErrorInvalidValue)
		fail("a wrong argument was not refused");
	cudaGetLastError();
	CHECK(cudaStreamDestroy(stream));
}

static void take_and_give_back(void *data)
{
	std::mutex *lock = (std::mutex *)data;

	lock->lock();
	lock->unlock();
}

/* It may need a lock that a thread holds around CUDA calls, like an interpreter's. */
static void locks_may_be_shared(void)
{
	std::mutex lock;
	int *word, *large;

	CHECK(cudaMalloc(&word, sizeof(int)));
	/* Its code must be loaded already: the driver waits for all streams to load code. */
	store<<<1, 1, 0, cudaStreamPerThread>>>(word, 0);
	CHECK(cudaStreamSynchronize(cudaStreamPerThread));
	lock.lock();
	CHECK(cudaLaunchHostFunc(cudaStreamPerThread, take_and_give_back, &lock));
	store<<<1, 1, 0, cudaStreamPerThread>>>(word, 7);
	CHECK(cudaGetLastError());
	CHECK(cudaMalloc(&large, LARGE));
	lock.unlock();
	if (read_word(word, cudaStreamPerThread) != 7)
		fail("what came behind a lock was not done");
	CHECK(cudaFree(large));
	CHECK(cudaFree(word));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until;

	locks_may_be_shared();
	until = now_s() + options.seconds;

	for (long round = 0; round < options.rounds || now_s() < until; round++) {
		many_in_order();
		later_work_waits();
		default_stream_rules();
		cuda_inside_is_refused();
		callbacks_are_told();
	}
	printf(NAME ": ok\n");
	return 0;
}
