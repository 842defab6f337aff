/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registered shared memory: files in memory that this process, a thread, a child and another CUDA
 * process have mapped. Kernels use them in place through device pointers; copies and fills use
 * host pointers.
 */

#define NAME "registered_shared"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers/program.h"

#define N (1 << 16)
#define BYTES (N * sizeof(int))
#define LARGE (72u << 20)

static __global__ void add(int *x, int n, int what)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] += what;
}

static int *map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		FAIL("no mapping");
	return (int *)p;
}

static int file_new(size_t size)
{
	int fd = memfd_create(NAME, MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		FAIL("no file");
	return fd;
}

static void expect(const int *x, int n, int first, const char *what)
{
	for (int i = 0; i < n; i++)
		if (x[i] != first + i)
			FAIL("%s: element %d is %d", what, i, x[i]);
}

static void count(int *x, int n)
{
	for (int i = 0; i < n; i++)
		x[i] = i;
}

static int *device_pointer(int *x)
{
	int *device = NULL;

	CHECK(cudaHostGetDevicePointer((void **)&device, x, 0));
	return device;
}

/* Works on `n' ints of registered memory in place, and checks the result. */
static void work(int *x, int n, const char *what)
{
	int *device = device_pointer(x);

	count(x, n);
	add<<<(n + 255) / 256, 256>>>(device, n, 5);
	CHECK(cudaDeviceSynchronize());
	expect(x, n, 5, what);
}

static volatile int is_done;

static void *count_up(void *arg)
{
	volatile int *counter = (volatile int *)arg;

	while (!is_done)
		++*counter;
	return NULL;
}

/* While a thread writes the word after them. */
static void beside_a_thread(void)
{
	int fd = file_new(2 * BYTES), before;
	int *x = map(fd, 2 * BYTES);
	pthread_t thread;

	is_done = 0;
	if (pthread_create(&thread, NULL, count_up, x + N) != 0)
		FAIL("no thread");
	CHECK(cudaHostRegister(x, 2 * BYTES, cudaHostRegisterMapped));
	work(x, N, "beside a thread");
	before = x[N];
	for (double until = now_s() + 10; *(volatile int *)&x[N] == before && now_s() < until;)
		usleep(1000);
	if (*(volatile int *)&x[N] == before)
		FAIL("the thread makes no progress");
	is_done = 1;
	pthread_join(thread, NULL);
	CHECK(cudaHostUnregister(x));
	munmap(x, 2 * BYTES);
	close(fd);
}

/* Found by name only, by descriptor only, and some bytes from the middle. */
static void names(void)
{
	char name[64];
	int fd, *x;

	snprintf(name, sizeof(name), "/" NAME ".%d", (int)getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)BYTES) < 0)
		FAIL("no shared memory");
	x = map(fd, BYTES);
	close(fd);
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterMapped));
	work(x, N, "by name");
	CHECK(cudaHostUnregister(x));
	fd = shm_open(name, O_RDWR, 0);
	shm_unlink(name);
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterPortable));
	work(x, N, "by descriptor");
	CHECK(cudaHostUnregister(x));
	CHECK(cudaHostRegister(x + 3001, 4001 * sizeof(int), cudaHostRegisterMapped));
	work(x + 3001, 4001, "a part");
	CHECK(cudaHostUnregister(x + 3001));
	close(fd);
	munmap(x, BYTES);
}

/* Copies, fills and attributes with both pointers. */
static void pointers(void)
{
	int fd = file_new(BYTES), *x = map(fd, BYTES), *other, *device;
	cudaPointerAttributes is;
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&other, BYTES));
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterMapped));
	device = device_pointer(x);
	CHECK(cudaPointerGetAttributes(&is, x + 7));
	if (is.type != cudaMemoryTypeHost || is.hostPointer != x + 7 ||
		is.devicePointer != device + 7)
		FAIL("attributes of the host pointer");
	CHECK(cudaPointerGetAttributes(&is, device + 7));
	if (is.type != cudaMemoryTypeHost || is.hostPointer != x + 7 ||
		is.devicePointer != device + 7)
		FAIL("attributes of the device pointer");

	count(x, N);
	CHECK(cudaMemcpyAsync(other, x, BYTES, cudaMemcpyHostToDevice, stream));
	add<<<N / 256, 256, 0, stream>>>(other, N, 1);
	CHECK(cudaMemcpyAsync(x, other, BYTES, cudaMemcpyDeviceToHost, stream));
	add<<<N / 256, 256, 0, stream>>>(device, N, 1);
	CHECK(cudaMemcpyAsync(other, device, BYTES, cudaMemcpyDefault, stream));
	CHECK(cudaMemsetAsync(device, 0, BYTES, stream));
	CHECK(cudaMemcpyAsync(device, other, BYTES / 2, cudaMemcpyDefault, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect(x, N / 2, 2, "copies");
	for (int i = N / 2; i < N; i++)
		if (x[i] != 0)
			FAIL("fill: element %d is %d", i, x[i]);
	/* Columns; and, on the host, from memory that is not registered. */
	CHECK(cudaMemcpy2D(x, 256, other, 512, 256, BYTES / 512, cudaMemcpyDeviceToHost));
	for (int row = 0; row < (int)(BYTES / 512); row++)
		expect(x + row * 64, 64, 2 + row * 128, "columns");
	static int own[N];
	count(own, N);
	CHECK(cudaMemcpy(x, own, BYTES, cudaMemcpyDefault));
	expect(x, N, 0, "host to host");
	CHECK(cudaMemcpy(own, device + 1, BYTES - sizeof(int), cudaMemcpyDefault));
	expect(own, N - 1, 1, "host to host, by the device pointer");
	CHECK(cudaHostUnregister(x));
	if (cudaHostUnregister(x) != cudaErrorHostMemoryNotRegistered)
		FAIL("unregistered twice");
	cudaGetLastError();
	CHECK(cudaFree(other));
	CHECK(cudaStreamDestroy(stream));
	munmap(x, BYTES);
	close(fd);
}

/* A graph captured with both pointers, launched twice. */
static void graph(void)
{
	int fd = file_new(BYTES), *x = map(fd, BYTES), *other;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&other, BYTES));
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterMapped));
	count(x, N);
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	add<<<N / 256, 256, 0, stream>>>(device_pointer(x), N, 1);
	CHECK(cudaMemcpyAsync(other, x, BYTES, cudaMemcpyHostToDevice, stream));
	add<<<N / 256, 256, 0, stream>>>(other, N, 1);
	CHECK(cudaMemcpyAsync(x, other, BYTES, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect(x, N, 4, "graph");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaHostUnregister(x));
	CHECK(cudaFree(other));
	CHECK(cudaStreamDestroy(stream));
	munmap(x, BYTES);
	close(fd);
}

/* More than one pinned piece. */
static void large(void)
{
	int fd = file_new(LARGE);
	unsigned char *x = (unsigned char *)map(fd, LARGE), *other, *device;

	CHECK(cudaMalloc(&other, LARGE));
	CHECK(cudaHostRegister(x, LARGE, cudaHostRegisterMapped));
	CHECK(cudaHostGetDevicePointer((void **)&device, x, 0));
	CHECK(cudaMemset(device, 3, LARGE));
	CHECK(cudaMemcpy(other, x, LARGE, cudaMemcpyHostToDevice));
	memset(x, 0, LARGE);
	CHECK(cudaMemcpy(x, other, LARGE, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < LARGE; i++)
		if (x[i] != 3)
			FAIL("byte %zu of the large one is %d", i, x[i]);
	CHECK(cudaHostUnregister(x));
	CHECK(cudaFree(other));
	munmap(x, LARGE);
	close(fd);
}

/* A child without CUDA sees the same bytes. */
static void child(void)
{
	int fd = file_new(BYTES), *x = map(fd, BYTES), status = 0;
	pid_t pid;

	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterMapped));
	pid = fork();
	if (pid == 0) {
		count(x, N);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		FAIL("child");
	add<<<N / 256, 256>>>(device_pointer(x), N, 9);
	CHECK(cudaDeviceSynchronize());
	expect(x, N, 9, "what a child wrote");
	CHECK(cudaHostUnregister(x));
	munmap(x, BYTES);
	close(fd);
}

/* The file of a mapping cannot be found: it may lack a device pointer, but copies work. */
static void anonymous(void)
{
	int *x =
		(int *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int *other;

	if (x == MAP_FAILED)
		FAIL("no anonymous memory");
	count(x, N);
	CHECK(cudaMalloc(&other, BYTES));
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterDefault));
	CHECK(cudaMemcpyAsync(other, x, BYTES, cudaMemcpyHostToDevice, 0));
	add<<<N / 256, 256>>>(other, N, 2);
	CHECK(cudaMemcpyAsync(x, other, BYTES, cudaMemcpyDeviceToHost, 0));
	CHECK(cudaDeviceSynchronize());
	expect(x, N, 2, "anonymous");
	CHECK(cudaHostUnregister(x));
	CHECK(cudaFree(other));
	munmap(x, BYTES);
}

/* Two processes with CUDA, each with a registration of the same pages, in turns. */
static int partner(int fd, int from, int to)
{
	int *x = map(fd, BYTES);
	char turn;

	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterMapped));
	for (int i = 0; i < 4; i++) {
		if (read(from, &turn, 1) != 1)
			return 1;
		add<<<N / 256, 256>>>(device_pointer(x), N, 1);
		CHECK(cudaDeviceSynchronize());
		if (write(to, &turn, 1) != 1)
			return 1;
	}
	CHECK(cudaHostUnregister(x));
	return 0;
}

static void two_processes(void)
{
	int fd = file_new(BYTES), *x = map(fd, BYTES), there[2], back[2], status = 0;
	char turn = 0;
	pid_t pid;

	if (pipe(there) < 0 || pipe(back) < 0)
		FAIL("no pipes");
	pid = fork(); /* before any call of CUDA */
	if (pid == 0) {
		close(there[1]);
		close(back[0]);
		_exit(partner(fd, there[0], back[1]));
	}
	close(there[0]);
	close(back[1]);
	count(x, N);
	CHECK(cudaHostRegister(x, BYTES, cudaHostRegisterMapped));
	for (int i = 0; i < 4; i++) {
		add<<<N / 256, 256>>>(device_pointer(x), N, 10);
		CHECK(cudaDeviceSynchronize());
		if (write(there[1], &turn, 1) != 1 || read(back[0], &turn, 1) != 1)
			FAIL("the other process has gone");
		expect(x, N, 11 * (i + 1), "by turns");
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		FAIL("the other process: %d", status);
	CHECK(cudaHostUnregister(x));
	munmap(x, BYTES);
	close(fd);
	close(there[1]);
	close(back[0]);
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	signal(SIGPIPE, SIG_IGN); /* the other process may have ended */
	two_processes();
	do {
		beside_a_thread();
		names();
		pointers();
		graph();
		large();
		child();
		anonymous();
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
