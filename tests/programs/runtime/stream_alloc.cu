/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory allocated and freed in stream order: reused at once on its own stream, passed to another
 * stream by an event, never given to another stream while the first still uses it; the other kind
 * of free; and what is refused.
 */

#define NAME "stream_alloc"
#include "../helpers/program.h"

enum {
	WORDS = 1 << 16,
	TURNS = 200
};

static __global__ void fill(unsigned *data, unsigned n, unsigned value)
{
	for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
		data[i] = value + i;
}

static __global__ void spin(long ticks)
{
	for (long start = clock64(); clock64() - start < ticks;)
		;
}

static __global__ void add(unsigned *sum, const unsigned *data, unsigned n)
{
	for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
		atomicAdd(sum, data[i] - i);
}

static void fail(const char *what, long value)
{
	printf(NAME ": %s: %ld\n", what, value);
	exit(1);
}

static void expect(cudaError_t got, cudaError_t expected, const char *what)
{
	if (got != expected)
		fail(what, got);
	cudaGetLastError();
}

static void check_words(const unsigned *data, unsigned n, unsigned value, const char *what)
{
	static unsigned host[WORDS];

	CHECK(cudaMemcpy(host, data, n * sizeof(*host), cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < n; i++)
		if (host[i] != value + i)
			fail(what, i);
}

/* Changing sizes on one stream, without a wait for it. */
static void one_stream(cudaStream_t stream)
{
	unsigned *sum, got = 0, expected = 0;

	CHECK(cudaMallocAsync(&sum, sizeof(*sum), stream));
	CHECK(cudaMemsetAsync(sum, 0, sizeof(*sum), stream));
	for (unsigned turn = 0; turn < TURNS; turn++) {
		unsigned n = 64u << turn % 11, *a, *b;

		CHECK(cudaMallocAsync(&a, n * sizeof(*a), stream));
		fill<<<1, 64, 0, stream>>>(a, n, turn);
		CHECK(cudaMallocAsync(&b, n * sizeof(*b), stream));
		CHECK(cudaMemcpyAsync(b, a, n * sizeof(*a), cudaMemcpyDeviceToDevice, stream));
		CHECK(cudaFreeAsync(a, stream));
		add<<<1, 64, 0, stream>>>(sum, b, n);
		CHECK(cudaFreeAsync(b, stream));
		expected += n * turn;
	}
	CHECK(cudaMemcpyAsync(&got, sum, sizeof(got), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaFreeAsync(sum, stream));
	CHECK(cudaStreamSynchronize(stream));
	if (got != expected)
		fail("the sum of one stream", got);
}

/* Allocated on one stream, used on another, freed on the first. */
static void handed_over(cudaStream_t first, cudaStream_t second)
{
	cudaEvent_t event;
	unsigned *data, *out;

	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	CHECK(cudaMalloc(&out, WORDS * sizeof(*out)));
	CHECK(cudaMallocAsync(&data, WORDS * sizeof(*data), first));
	CHECK(cudaEventRecord(event, first));
	CHECK(cudaStreamWaitEvent(second, event, 0));
	fill<<<1, 64, 0, second>>>(data, WORDS, 7);
	CHECK(cudaMemcpyAsync(out, data, WORDS * sizeof(*out), cudaMemcpyDeviceToDevice, second));
	CHECK(cudaEventRecord(event, second));
	CHECK(cudaStreamWaitEvent(first, event, 0));
	CHECK(cudaFreeAsync(data, first));
	CHECK(cudaStreamSynchronize(first));
	check_words(out, WORDS, 7, "memory handed over");
	CHECK(cudaFree(out));
	CHECK(cudaEventDestroy(event));
}

/* Memory that one stream frees after long work is not available to the other yet. */
static void not_too_early(cudaStream_t slow, cudaStream_t fast)
{
	unsigned *out, *data, *other;

	CHECK(cudaMalloc(&out, WORDS * sizeof(*out)));
	for (unsigned turn = 0; turn < 8; turn++) {
		CHECK(cudaMallocAsync(&data, WORDS * sizeof(*data), slow));
		fill<<<1, 64, 0, slow>>>(data, WORDS, turn);
		spin<<<1, 1, 0, slow>>>(2000000);
		CHECK(cudaMemcpyAsync(
			out, data, WORDS * sizeof(*out), cudaMemcpyDeviceToDevice, slow));
		CHECK(cudaFreeAsync(data, slow));
		CHECK(cudaMallocAsync(&other, WORDS * sizeof(*other), fast));
		CHECK(cudaMemsetAsync(other, 0xee, WORDS * sizeof(*other), fast));
		CHECK(cudaFreeAsync(other, fast));
		CHECK(cudaStreamSynchronize(fast));
		CHECK(cudaStreamSynchronize(slow));
		check_words(out, WORDS, turn, "memory that was freed behind long work");
	}
	CHECK(cudaFree(out));
}

/* The legacy stream waits for blocking streams, and so do its frees. */
static void default_stream(void)
{
	cudaStream_t blocking;
	unsigned *data, *other, *out;

	CHECK(cudaStreamCreate(&blocking));
	CHECK(cudaMalloc(&out, WORDS * sizeof(*out)));
	CHECK(cudaMallocAsync(&data, WORDS * sizeof(*data), blocking));
	spin<<<1, 1, 0, blocking>>>(2000000);
	fill<<<1, 64, 0, blocking>>>(data, WORDS, 21);
	CHECK(cudaMemcpyAsync(out, data, WORDS * sizeof(*out), cudaMemcpyDeviceToDevice, blocking));
	CHECK(cudaFreeAsync(data, 0));
	CHECK(cudaMallocAsync(&other, WORDS * sizeof(*other), 0));
	CHECK(cudaMemsetAsync(other, 0, WORDS * sizeof(*other), 0));
	CHECK(cudaFreeAsync(other, 0));
	CHECK(cudaDeviceSynchronize());
	check_words(out, WORDS, 21, "memory that the default stream has freed");
	CHECK(cudaFree(out));
	CHECK(cudaStreamDestroy(blocking));
}

/* Memory of each kind may be freed in the other way, and no memory in either. */
static void other_free(cudaStream_t stream)
{
	unsigned *data;

	CHECK(cudaFreeAsync(NULL, stream));
	CHECK(cudaMallocAsync(&data, WORDS * sizeof(*data), stream));
	fill<<<1, 64, 0, stream>>>(data, WORDS, 1);
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaFree(data));
	CHECK(cudaMalloc(&data, WORDS * sizeof(*data)));
	fill<<<1, 64, 0, stream>>>(data, WORDS, 1);
	CHECK(cudaFreeAsync(data, stream));
	CHECK(cudaStreamSynchronize(stream));
}

/* A stream may be destroyed before its memory is freed. */
static void without_its_stream(cudaStream_t other)
{
	cudaStream_t stream;
	unsigned *data;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMallocAsync(&data, WORDS * sizeof(*data), stream));
	fill<<<1, 64, 0, stream>>>(data, WORDS, 3);
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaStreamDestroy(stream));
	check_words(data, WORDS, 3, "memory without its stream");
	CHECK(cudaFreeAsync(data, other));
	CHECK(cudaStreamSynchronize(other));
}

static void refused(cudaStream_t stream)
{
	cudaPointerAttributes is;
	unsigned *data;
	void *p = NULL;

	expect(cudaMallocAsync(&p, (size_t)1 << 50, stream), cudaErrorMemoryAllocation,
		"an allocation that cannot fit");
	expect(cudaFreeAsync(&is, stream), cudaErrorInvalidValue, "a free of the host's memory");
	CHECK(cudaMallocAsync(&data, WORDS * sizeof(*data), stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaPointerGetAttributes(&is, data + 1));
	if (is.type != cudaMemoryTypeDevice || is.devicePointer != data + 1)
		fail("the type of stream-ordered memory", is.type);
	expect(cudaFreeAsync(data + 1, stream), cudaErrorInvalidValue, "a free in the middle");
	CHECK(cudaFreeAsync(data, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect(cudaFreeAsync(data, stream), cudaErrorInvalidValue, "a second free");
}

int main(void)
{
	cudaStream_t streams[2];

	for (int i = 0; i < 2; i++)
		CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
	one_stream(streams[0]);
	one_stream(0);
	handed_over(streams[0], streams[1]);
	not_too_early(streams[0], streams[1]);
	default_stream();
	other_free(streams[1]);
	without_its_stream(streams[0]);
	refused(streams[0]);
	for (int i = 0; i < 2; i++)
		CHECK(cudaStreamDestroy(streams[i]));
	printf(NAME ": ok\n");
	return 0;
}
