/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pinned host memory: kernels that read and write it in place, copies that do
 * not wait, sizes from bytes to many megabytes, freed and allocated again.
 */

#define NAME "pinned"

#include <sys/mman.h>

#include "../helpers/program.h"

#define N (5 << 20) /* floats: 20 MiB */
#define PIECES 16

static __global__ void scale_add(float *x, const float *y, float a, long n)
{
	long i = blockIdx.x * (long)blockDim.x + threadIdx.x;

	if (i < n)
		x[i] = a * x[i] + y[i];
}

static __global__ void spin(long ticks)
{
	for (long start = clock64(); clock64() - start < ticks;)
		;
}

static void fail(const char *what, long i)
{
	printf(NAME ": %s, element %ld\n", what, i);
	exit(1);
}

/* The GPU works on host memory directly, at the host's addresses. */
static void in_place(void)
{
	const long n = 1 << 14;
	float *x, *y, *device_x;

	CHECK(cudaHostAlloc(&x, n * sizeof(float), cudaHostAllocMapped));
	CHECK(cudaMallocHost(&y, n * sizeof(float)));
	CHECK(cudaHostGetDevicePointer(&device_x, x, 0));
	for (long i = 0; i < n; i++) {
		x[i] = (float)i;
		y[i] = 1;
	}
	scale_add<<<(unsigned)((n + 255) / 256), 256>>>(device_x, y, 2, n);
	CHECK(cudaDeviceSynchronize());
	for (long i = 0; i < n; i++)
		if (x[i] != 2 * (float)i + 1)
			fail("in place", i);
	CHECK(cudaFreeHost(x));
	CHECK(cudaFreeHost(y));
}

/* Pieces are copied both ways on separate streams while the host continues. */
static void pipeline(void)
{
	cudaStream_t streams[PIECES];
	float *host, *device;
	const long piece = N / PIECES;

	CHECK(cudaMallocHost(&host, N * sizeof(float)));
	CHECK(cudaMalloc(&device, N * sizeof(float)));
	CHECK(cudaMemset(device, 0, N * sizeof(float)));
	CHECK(cudaDeviceSynchronize());
	for (long i = 0; i < N; i++)
		host[i] = (float)(i % 1000);
	for (int k = 0; k < PIECES; k++) {
		long at = k * piece;

		CHECK(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
		CHECK(cudaMemcpyAsync(device + at, host + at, piece * sizeof(float),
			cudaMemcpyHostToDevice, streams[k]));
		CHECK(cudaMemcpyAsync(host + at, device + at, piece * sizeof(float),
			cudaMemcpyDeviceToHost, streams[k]));
		CHECK(cudaMemsetAsync(device + at, 0, piece * sizeof(float), streams[k]));
	}
	for (int k = 0; k < PIECES; k++) {
		CHECK(cudaStreamSynchronize(streams[k]));
		CHECK(cudaStreamDestroy(streams[k]));
	}
	for (long i = 0; i < N; i++)
		if (host[i] != (float)(i % 1000))
			fail("pipeline", i);
	CHECK(cudaMemcpy(host, device, N * sizeof(float), cudaMemcpyDeviceToHost));
	for (long i = 0; i < N; i++)
		if (host[i] != 0)
			fail("synchronous copy", i);
	CHECK(cudaFreeHost(host));
	CHECK(cudaFree(device));
}

/* A copy from pinned memory reads it in its turn, not at the call. */
static void late_read(void)
{
	const int n = 1 << 10;
	int *host, *device, back[n];
	cudaStream_t stream;
	cudaEvent_t done;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&done));
	CHECK(cudaMallocHost(&host, 2 * n * sizeof(int)));
	CHECK(cudaMalloc(&device, n * sizeof(int)));
	memset(host, 1, 2 * n * sizeof(int));
	spin<<<1, 1, 0, stream>>>(1000000);
	CHECK(cudaMemcpyAsync(host, host + n, n * sizeof(int), cudaMemcpyDefault, stream));
	CHECK(cudaMemcpyAsync(device, host, n * sizeof(int), cudaMemcpyDefault, stream));
	CHECK(cudaEventRecord(done, stream));
	CHECK(cudaEventSynchronize(done));
	CHECK(cudaMemcpy(back, device, n * sizeof(int), cudaMemcpyDefault));
	for (int i = 0; i < n; i++)
		if (back[i] != 0x01010101)
			fail("late read", i);
	CHECK(cudaMemcpy(host, back, n * sizeof(int), cudaMemcpyDefault));
	CHECK(cudaMemset(host, 0x7f, 8));
	CHECK(cudaDeviceSynchronize());
	if (host[0] != 0x7f7f7f7f || host[1] != 0x7f7f7f7f || host[2] != 0x01010101)
		fail("set", host[0]);
	CHECK(cudaFreeHost(host));
	CHECK(cudaFree(device));
	CHECK(cudaEventDestroy(done));
	CHECK(cudaStreamDestroy(stream));
}

/* Larger than one pinned piece, copied from an odd address to an odd address. */
static void large(void)
{
	const size_t size = 80u << 20;
	unsigned char *a, *b, *device;

	CHECK(cudaMallocHost(&a, size));
	CHECK(cudaMallocHost(&b, size));
	CHECK(cudaMalloc(&device, size));
	for (size_t i = 0; i < size; i++)
		a[i] = (unsigned char)(i * 7 + (i >> 12));
	memset(b, 0, size);
	CHECK(cudaMemcpyAsync(device, a + 3, size - 3, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpyAsync(b + 5, device, size - 5, cudaMemcpyDeviceToHost));
	CHECK(cudaDeviceSynchronize());
	if (b[4] != 0 || memcmp(b + 5, a + 3, size - 5) != 0)
		fail("large copy", 0);
	CHECK(cudaMemset(b, 9, size));
	CHECK(cudaDeviceSynchronize());
	for (size_t i = 0; i < size; i += 4093)
		if (b[i] != 9)
			fail("large set", (long)i);
	CHECK(cudaFreeHost(a));
	CHECK(cudaFreeHost(b));
	CHECK(cudaFree(device));
}

/* Pitched and in slices, with an odd row length. */
static void large_boxes(void)
{
	const size_t pitch = 3000008, width = 2999999, rows = 8, slices = 4;
	const size_t size = pitch * rows * slices;
	unsigned char *a, *b;
	cudaPitchedPtr middle;
	cudaMemcpy3DParms copy = {0};

	CHECK(cudaMallocHost(&a, size));
	CHECK(cudaMallocHost(&b, size));
	CHECK(cudaMalloc3D(&middle, make_cudaExtent(width, rows, slices)));
	for (size_t i = 0; i < size; i++)
		a[i] = (unsigned char)(i * 13 + (i >> 11));
	memset(b, 0, size);
	copy.srcPtr = make_cudaPitchedPtr(a, pitch, width, rows);
	copy.dstPtr = middle;
	copy.extent = make_cudaExtent(width, rows, slices);
	copy.kind = cudaMemcpyDefault;
	CHECK(cudaMemcpy3DAsync(&copy));
	copy.srcPtr = middle;
	copy.dstPtr = make_cudaPitchedPtr(b, pitch, width, rows);
	CHECK(cudaMemcpy3DAsync(&copy));
	CHECK(cudaDeviceSynchronize());
	for (size_t at = 0; at < size; at += pitch)
		if (memcmp(a + at, b + at, width) != 0 || b[at + width] != 0)
			fail("large box, row", (long)(at / pitch));

	/* Within pinned memory, and only rows. */
	CHECK(cudaMemcpy2DAsync(
		b, pitch, a + pitch, pitch, width, rows * slices - 1, cudaMemcpyDefault));
	CHECK(cudaDeviceSynchronize());
	for (size_t at = 0; at + pitch < size; at += pitch)
		if (memcmp(a + at + pitch, b + at, width) != 0)
			fail("rows within pinned memory", (long)(at / pitch));
	CHECK(cudaFreeHost(a));
	CHECK(cudaFreeHost(b));
	CHECK(cudaFree(middle.ptr));
}

static void many(void)
{
	unsigned char *p[64];

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 64; i++) {
			size_t size = (size_t)1 << (i % 22);

			CHECK(cudaMallocHost(&p[i], size));
			memset(p[i], i, size);
		}
		for (int i = 0; i < 64; i++) {
			size_t size = (size_t)1 << (i % 22);

			if (p[i][0] != i || p[i][size - 1] != i)
				fail("overlap", i);
			CHECK(cudaFreeHost(p[i]));
		}
	}
}

/* The program may use the addresses where such memory would otherwise lie. */
static void crowd(void)
{
	void *first = mmap((void *)0x400000000000, 3ul << 32, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *p;

	CHECK(cudaMallocHost(&p, 100));
	if (first == MAP_FAILED || mprotect(first, 3ul << 32, PROT_NONE) != 0)
		fail("another program's memory", 0);
	memset(p, 1, 100);
	CHECK(cudaFreeHost(p));
}

static void attributes(void)
{
	cudaPointerAttributes is;
	unsigned flags;
	char *p;

	CHECK(cudaHostAlloc(&p, 1000, cudaHostAllocPortable | cudaHostAllocWriteCombined));
	CHECK(cudaHostGetFlags(&flags, p));
	CHECK(cudaPointerGetAttributes(&is, p + 10));
	if (is.type != cudaMemoryTypeHost || is.hostPointer != p + 10 || is.devicePointer != p + 10)
		fail("attributes", is.type);
	if (flags != (cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
		fail("flags", (long)flags);
	if (cudaFreeHost(p + 1) != cudaErrorInvalidValue || cudaFree(p) != cudaErrorInvalidValue)
		fail("a bad free", 0);
	cudaGetLastError();
	CHECK(cudaFreeHost(p));
	if (cudaFreeHost(p) != cudaErrorInvalidValue)
		fail("a second free", 0);
	cudaGetLastError();
	CHECK(cudaFreeHost(NULL));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	crowd();
	do {
		in_place();
		pipeline();
		late_read();
		large();
		large_boxes();
		many();
		attributes();
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
