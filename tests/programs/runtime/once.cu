/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `once PATH SECONDS' writes to unmapped memory if PATH does not exist, and makes that file. Later
 * runs launch kernels for SECONDS, wait for each, and print how many they were.
 *
 * Runs: for a test of its own
 */

#include <fcntl.h>
#include <unistd.h>

#define NAME "once"
#include "../helpers/program.h"

/* No driver puts an allocation here, and neither does the service for any client. */
#define NOWHERE 0x100000000000ULL

static __global__ void store(int *where)
{
	*where = 1;
}

static unsigned launch_for(int *data, double seconds)
{
	const double end = now_s() + seconds;
	unsigned n = 0;

	for (; now_s() < end; n++) {
		store<<<1, 1>>>(data);
		CHECK(cudaDeviceSynchronize());
	}
	return n;
}

static void fault(void)
{
	cudaError_t error;

	store<<<1, 1>>>((int *)NOWHERE);
	error = cudaDeviceSynchronize();
	if (error == cudaErrorIllegalAddress)
		return;
	printf(NAME ": got %d (%s), not 700\n", error, cudaGetErrorString(error));
	exit(1);
}

static bool is_first(const char *path)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int main(int argc, char **argv)
{
	int *data = NULL;

	if (argc != 3)
		return 2;
	CHECK(cudaMalloc(&data, 4096));
	if (is_first(argv[1]))
		fault();
	else
		printf(NAME ": %u launches\n", launch_for(data, atof(argv[2])));
	printf(NAME ": ok\n");
	return 0;
}
