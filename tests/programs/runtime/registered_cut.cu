/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file that is cut short, and gets holes, while the GPU works on it: registered pages are
 * pinned, so kernels and copies continue on pages that the file no longer has. The host itself
 * no longer reads them.
 */

#define NAME "registered_cut"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../helpers/program.h"

#define N (1 << 16)
#define BYTES (N * sizeof(int))
#define HALF (BYTES / 2)

static __global__ void add(int *x, int n, int what)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] += what;
}

static void work(int *device, int *x, int *other, cudaStream_t stream)
{
	for (int i = 0; i < 20; i++) {
		add<<<N / 256, 256, 0, stream>>>(device, N, 1);
		CHECK(cudaMemcpyAsync(other, device, BYTES, cudaMemcpyDeviceToDevice, stream));
		CHECK(cudaMemcpyAsync(device, other, BYTES, cudaMemcpyDeviceToDevice, stream));
		CHECK(cudaMemcpyAsync(other, x, 64, cudaMemcpyHostToDevice, stream));
		CHECK(cudaMemcpyAsync(x, other, 64, cudaMemcpyDeviceToHost, stream));
	}
}

static void round_of(bool is_cut)
{
	int fd = memfd_create(NAME, MFD_CLOEXEC), *x, *device, *other;
	cudaStream_t stream;

	if (fd < 0 || ftruncate(fd, (off_t)BYTES) < 0)
		FAIL("no file");
	x = (int *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (x == MAP_FAILED)
		FAIL("no mapping");
	memset(x, 0, BYTES);
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&other, BYTES));
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterMapped));
	CHECK(cudaHostGetDevicePointer((void **)&device, x, 0));
	work(device, x, other, stream);
	if (is_cut ? ftruncate(fd, (off_t)HALF) < 0
		   : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)HALF,
			     (off_t)HALF) < 0)
		FAIL("the file stays as it is");
	work(device, x, other, stream);
	CHECK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < N / 2; i++)
		if (x[i] != 40)
			FAIL("element %zu is %d", i, x[i]);
	if (is_cut && ftruncate(fd, 0) < 0)
		FAIL("the file stays as it is");
	work(device, x, other, stream);
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaHostUnregister(x));
	CHECK(cudaFree(other));
	CHECK(cudaStreamDestroy(stream));
	munmap(x, BYTES);
	close(fd);
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	do {
		round_of(true);
		round_of(false);
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
