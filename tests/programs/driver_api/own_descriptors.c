/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program that uses the numbers of descriptors as it likes. The client library writes to none of
 * its files, and closes none.
 *
 *     own_descriptors low           closes the standard descriptors first: they stay closed
 *     own_descriptors all FILE      opens its own file under every other number: calls fail
 *     own_descriptors closed        closes every other number: calls fail
 *     own_descriptors few           has no more descriptors for a while
 *     own_descriptors early FILE    opens FILE under the number of standard error, then uses CUDA
 *     own_descriptors late FILE     the same after it has used CUDA
 *     own_descriptors pipe          nobody reads its standard error
 *
 * Runs: for a test of its own
 */

#define NAME "own_descriptors"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers/graph_driver.h"

enum {
	NUMBERS = 256,
	LIMIT = 64,
	SAVED = 200, /* a copy of standard output */
	PINNED = 80 << 20
};

/* The client refuses this call with a line on standard error. */
static void be_refused(void)
{
	char luid[8];
	unsigned mask;

	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuDeviceGetLuid(luid, &mask, 0));
}

static void run_kernel(void)
{
	struct mad_args args = {.data = data, .count = COUNT, .times = 1, .add = 1};
	CUDA_KERNEL_NODE_PARAMS params = mad_node(&args, mad);

	CHECK(cuLaunchKernel(mad, params.gridDimX, 1, 1, params.blockDimX, 1, 1, 0, stream,
		params.kernelParams, NULL));
	CHECK(cuStreamSynchronize(stream));
}

/* Messages of every kind: with a descriptor from the client, with one from the server, without. */
static void work(void)
{
	CUmodule other;
	void *pinned;

	CHECK(cuModuleLoadData(&other, image));
	CHECK(cuMemHostAlloc(&pinned, PINNED, 0));
	run_kernel();
	CHECK(cuMemFreeHost(pinned));
	CHECK(cuModuleUnload(other));
}

static int low(void)
{
	must(dup2(STDOUT_FILENO, SAVED) == SAVED, "a copy of standard output", __LINE__);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	setup();
	work();
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			dprintf(SAVED, NAME ": descriptor %d is open\n", fd);
			return 1;
		}
	dup2(SAVED, STDOUT_FILENO);
	return finish();
}

static bool is_file(int fd, const struct stat *own)
{
	struct stat file;

	return fstat(fd, &file) == 0 && file.st_dev == own->st_dev && file.st_ino == own->st_ino;
}

static void check_numbers(const bool *is_taken, const struct stat *own, const char *when)
{
	for (int fd = 3; fd < NUMBERS; fd++)
		if (is_taken[fd] && !is_file(fd, own)) {
			printf(NAME ": %s, descriptor %d is not the program's file\n", when, fd);
			exit(1);
		}
}

/* What the calls return is the library's choice, but they return. */
static void call_all(void)
{
	struct mad_args args = {.data = data, .count = COUNT, .times = 1, .add = 1};
	CUDA_KERNEL_NODE_PARAMS params = mad_node(&args, mad);
	CUresult results[6];
	CUmodule other;
	char luid[8];
	unsigned mask;
	void *pinned;

	results[0] = cuDeviceGetLuid(luid, &mask, 0);
	results[1] = cuModuleLoadData(&other, image);
	results[2] = cuMemHostAlloc(&pinned, PINNED, 0);
	results[3] = cuLaunchKernel(mad, params.gridDimX, 1, 1, params.blockDimX, 1, 1, 0, stream,
		params.kernelParams, NULL);
	results[4] = cuStreamSynchronize(stream);
	results[5] = cuCtxSynchronize();
	must(results[5] != CUDA_SUCCESS, "an error at last", __LINE__);
	for (unsigned i = 0; i < 6; i++)
		printf("%d\n", results[i]);
}

static int all(const char *path)
{
	bool is_taken[NUMBERS] = {0};
	struct stat own;
	int fd, status;

	setup();
	work();
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	must(fd >= 0 && write(fd, "DATA\n", 5) == 5 && fstat(fd, &own) == 0, "a file", __LINE__);
	for (int i = 3; i < NUMBERS; i++)
		if (fcntl(i, F_GETFD) >= 0)
			is_taken[i] = dup2(fd, i) == i;
	call_all();
	check_numbers(is_taken, &own, "after the calls");
	fflush(stdout);
	if (fork() == 0) {
		(void)cuInit(0);
		(void)cuCtxSynchronize();
		check_numbers(is_taken, &own, "in a child");
		exit(0);
	}
	must(wait(&status) > 0 && status == 0, "the child's end", __LINE__);
	must(write(fd, "MORE\n", 5) == 5, "the end of the file", __LINE__);
	printf(NAME ": ok\n");
	return 0;
}

static int closed(void)
{
	setup();
	work();
	for (int fd = 3; fd < NUMBERS; fd++)
		close(fd);
	call_all();
	printf(NAME ": ok\n");
	return 0;
}

/* Memory as a descriptor, in both ways. */
static void export_both(CUresult wanted, CUmemGenericAllocationHandle handle, CUdeviceptr address)
{
	int fd = -1;

	EXPECT(wanted, cuMemExportToShareableHandle(
			       &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(fd);
	EXPECT(wanted, cuMemGetHandleForAddressRange(
			       &fd, address, PINNED, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	close(fd);
}

static int few(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	struct rlimit limit = {LIMIT, LIMIT};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	void *pinned[8] = {0};
	int fds[LIMIT], n = 0;

	setup();
	CHECK(cuMemCreate(&handle, PINNED, &prop, 0));
	CHECK(cuMemAlloc(&address, PINNED));
	must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "a limit", __LINE__);
	while (n < LIMIT && (fds[n] = open("/dev/null", O_RDONLY)) >= 0)
		n++;
	must(n < LIMIT && errno == EMFILE, "no descriptor is left", __LINE__);
	for (unsigned i = 0; i < 8; i++)
		if (cuMemHostAlloc(&pinned[i], PINNED, 0) != CUDA_SUCCESS)
			pinned[i] = NULL;
	(void)cuModuleLoadData(&module, image);
	export_both(CUDA_ERROR_OUT_OF_MEMORY, handle, address);
	while (n > 0)
		close(fds[--n]);
	export_both(CUDA_SUCCESS, handle, address);
	CHECK(cuMemRelease(handle));
	CHECK(cuMemFree(address));
	for (unsigned i = 0; i < 8; i++)
		if (pinned[i])
			CHECK(cuMemFreeHost(pinned[i]));
	CHECK(cuModuleLoadData(&module, image));
	work();
	return finish();
}

static int reused(const char *path, bool is_early)
{
	int fd;

	if (!is_early)
		setup();
	close(STDERR_FILENO);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	must(fd == STDERR_FILENO, "the number of standard error", __LINE__);
	must(write(fd, "DATA\n", 5) == 5, "a write", __LINE__);
	if (is_early)
		setup();
	be_refused();
	work();
	must(write(fd, "MORE\n", 5) == 5, "a write", __LINE__);
	return finish();
}

static int unread(void)
{
	int ends[2];

	must(pipe(ends) == 0, "a pipe", __LINE__);
	/* The same file from the start: the program begins again. */
	if (!getenv("OWN_DESCRIPTORS_UNREAD")) {
		setenv("OWN_DESCRIPTORS_UNREAD", "1", 1);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl("/proc/self/exe", NAME, "pipe", (char *)NULL);
		return 1;
	}
	setup();
	be_refused();
	work();
	return finish();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : "";

	if (strcmp(mode, "low") == 0)
		return low();
	if (strcmp(mode, "all") == 0)
		return all(path);
	if (strcmp(mode, "closed") == 0)
		return closed();
	if (strcmp(mode, "few") == 0)
		return few();
	if (strcmp(mode, "early") == 0 || strcmp(mode, "late") == 0)
		return reused(path, mode[0] == 'e');
	return unread();
}
