/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events: order between two streams that exchange a sum, order after the default stream,
 * times, and the driver's results for events that were never recorded, are not done, or keep
 * no time.
 */

#define NAME "events"
#include "../helpers/program.h"

enum {
	WORDS = 1 << 14,
	TURNS = 20
};

static __global__ void step(unsigned *data, unsigned factor, unsigned addend)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < WORDS)
		data[i] = data[i] * factor + addend;
}

static int check_words(const unsigned *host, unsigned expected, const char *what)
{
	for (int i = 0; i < WORDS; i++)
		if (host[i] != expected) {
			printf(NAME ": %s: word %d is %u, not %u\n", what, i, host[i], expected);
			return 1;
		}
	return 0;
}

/* Each step waits for the previous one, on the other stream. */
static int to_and_fro(unsigned *data, unsigned *host)
{
	cudaStream_t streams[2];
	cudaEvent_t done;
	unsigned expected = 1;

	CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
	for (int i = 0; i < 2; i++)
		CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
	step<<<WORDS / 256, 256, 0, streams[1]>>>(data, 0, 1);
	CHECK(cudaEventRecord(done, streams[1]));
	for (unsigned turn = 0; turn < TURNS; turn++) {
		CHECK(cudaStreamWaitEvent(streams[turn % 2], done, 0));
		step<<<WORDS / 256, 256, 0, streams[turn % 2]>>>(data, 3, turn);
		CHECK(cudaEventRecord(done, streams[turn % 2]));
		expected = expected * 3 + turn;
	}
	CHECK(cudaEventSynchronize(done));
	CHECK(cudaEventQuery(done));
	CHECK(cudaMemcpy(host, data, WORDS * sizeof(*host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 2; i++)
		CHECK(cudaStreamDestroy(streams[i]));
	CHECK(cudaEventDestroy(done));
	return check_words(host, expected, "two streams");
}

/* An event of the default stream covers the earlier work of blocking streams. */
static int behind_the_default(unsigned *data, unsigned *host)
{
	cudaStream_t blocking;
	cudaEvent_t done;

	CHECK(cudaStreamCreate(&blocking));
	CHECK(cudaEventCreate(&done));
	step<<<WORDS / 256, 256, 0, blocking>>>(data, 0, 5);
	CHECK(cudaEventRecord(done, 0));
	CHECK(cudaEventSynchronize(done));
	CHECK(cudaMemcpyAsync(host, data, WORDS * sizeof(*host), cudaMemcpyDeviceToHost, blocking));
	CHECK(cudaStreamSynchronize(blocking));
	CHECK(cudaEventDestroy(done));
	CHECK(cudaStreamDestroy(blocking));
	return check_words(host, 5, "the default stream");
}

static int times(unsigned *data)
{
	cudaEvent_t begin, end, timeless;
	float ms = -1;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaEventCreateWithFlags(&timeless, cudaEventDisableTiming));
	CHECK(cudaEventQuery(begin));
	CHECK(cudaEventSynchronize(begin));
	if (cudaEventElapsedTime(&ms, begin, end) != cudaErrorInvalidResourceHandle) {
		printf(NAME ": events that were never recorded have a time between them\n");
		return 1;
	}
	CHECK(cudaEventRecord(begin));
	for (int i = 0; i < TURNS; i++)
		step<<<WORDS / 256, 256>>>(data, 1, 1);
	CHECK(cudaEventRecord(end));
	CHECK(cudaEventRecord(timeless));
	CHECK(cudaEventSynchronize(end));
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	if (!(ms >= 0 && ms < 60000)) {
		printf(NAME ": %g ms between two events\n", ms);
		return 1;
	}
	CHECK(cudaEventSynchronize(timeless));
	if (cudaEventElapsedTime(&ms, begin, timeless) != cudaErrorInvalidResourceHandle) {
		printf(NAME ": an event without times has one\n");
		return 1;
	}
	cudaGetLastError();
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
	CHECK(cudaEventDestroy(timeless));
	return 0;
}

int main(void)
{
	unsigned *host = (unsigned *)malloc(WORDS * sizeof(*host)), *data;

	CHECK(cudaMalloc(&data, WORDS * sizeof(*data)));
	if (to_and_fro(data, host) || behind_the_default(data, host) || times(data))
		return 1;
	CHECK(cudaFree(data));
	free(host);
	printf(NAME ": ok\n");
	return 0;
}
