/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Textures on linear memory: fetched by index, zeros outside; with a size beyond the memory; on
 * pitched rows, filtered and clamped; also in pinned memory of the host. The contents may change
 * between two launches.
 */

#define NAME "texture_linear"

#include <math.h>

#include "../helpers/program.h"

#define N 10000
#define WIDTH 50
#define HEIGHT 30
/* More than one allocation has, after rounding. */
#define LONG_BYTES (1u << 30)

static void fail(const char *what, long i)
{
	printf(NAME ": %s, element %ld\n", what, i);
	exit(1);
}

template <typename T>
static __global__ void fetch(cudaTextureObject_t texture, T *out, int n, int first)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = tex1Dfetch<T>(texture, first + i);
}

static __global__ void sample(cudaTextureObject_t texture, float *out, float step)
{
	int x = threadIdx.x, y = blockIdx.x;

	out[y * WIDTH + x] = tex2D<float>(texture, x + step, y + step);
}

template <typename T> static cudaTextureObject_t texture_on(T *memory, size_t n)
{
	cudaResourceDesc resource = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;

	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = memory;
	resource.res.linear.desc = cudaCreateChannelDesc<T>();
	resource.res.linear.sizeInBytes = n * sizeof(T);
	CHECK(cudaCreateTextureObject(&texture, &resource, &desc, NULL));
	return texture;
}

/* `device' is the GPU's address of `host'; both may be the same. */
static void try_line(int *host, int *device)
{
	cudaTextureObject_t texture = texture_on(device, N);
	static int out[N];
	int *device_out;

	CHECK(cudaMalloc(&device_out, sizeof(out)));
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < N; i++)
			host[i] = i * round - 77;
		if (host != device)
			CHECK(cudaMemcpy(device, host, N * sizeof(int), cudaMemcpyHostToDevice));
		fetch<<<(N + 127) / 128, 128>>>(texture, device_out, N, 0);
		CHECK(cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost));
		if (memcmp(out, host, sizeof(out)) != 0)
			fail("a line", round);
	}
	fetch<<<1, 128>>>(texture, device_out, 128, N - 64);
	CHECK(cudaMemcpy(out, device_out, 128 * sizeof(int), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 128; i++)
		if (out[i] != (i < 64 ? host[N - 64 + i] : 0))
			fail("the end of a line", i);
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFree(device_out));
}

static void try_lines(void)
{
	int *pageable = (int *)malloc(N * sizeof(int)), *pinned, *device;
	static float4 wide[N], out[N];
	float4 *device_wide, *device_out;
	cudaTextureObject_t texture;

	CHECK(cudaMalloc(&device, N * sizeof(int)));
	CHECK(cudaMallocHost(&pinned, N * sizeof(int)));
	try_line(pageable, device);
	try_line(pinned, pinned);
	free(pageable);
	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(pinned));

	for (int i = 0; i < N; i++)
		wide[i] = make_float4((float)i, -1, 0.25f * (float)i, 3);
	CHECK(cudaMalloc(&device_wide, sizeof(wide)));
	CHECK(cudaMalloc(&device_out, sizeof(out)));
	CHECK(cudaMemcpy(device_wide, wide, sizeof(wide), cudaMemcpyHostToDevice));
	texture = texture_on(device_wide, N);
	fetch<<<(N + 127) / 128, 128>>>(texture, device_out, N, 0);
	CHECK(cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost));
	if (memcmp(out, wide, sizeof(out)) != 0)
		fail("a line of four", 0);
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFree(device_wide));
	CHECK(cudaFree(device_out));
}

/*
 * The driver accepts a line that is longer than its memory, if kernels read only what exists; it
 * ignores filters and address modes.
 */
static void try_long_line(float *host, float *device)
{
	cudaResourceDesc resource = {}, told = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	static float out[N];
	float *device_out;

	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = device;
	resource.res.linear.desc = cudaCreateChannelDesc<float>();
	resource.res.linear.sizeInBytes = LONG_BYTES;
	desc.filterMode = cudaFilterModeLinear;
	desc.addressMode[0] = cudaAddressModeWrap;
	for (int i = 0; i < N; i++)
		host[i] = 0.5f * (float)i - 77;
	if (host != device)
		CHECK(cudaMemcpy(device, host, N * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaMalloc(&device_out, sizeof(out)));
	CHECK(cudaCreateTextureObject(&texture, &resource, &desc, NULL));
	CHECK(cudaGetTextureObjectResourceDesc(&told, texture));
	if (told.res.linear.sizeInBytes != LONG_BYTES)
		fail("the size of a long line", (long)told.res.linear.sizeInBytes);
	fetch<<<(N + 127) / 128, 128>>>(texture, device_out, N, 0);
	CHECK(cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost));
	if (memcmp(out, host, sizeof(out)) != 0)
		fail("a long line", 0);
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFree(device_out));
}

static void try_long_lines(void)
{
	float *pageable = (float *)malloc(N * sizeof(float)), *pinned, *device;

	CHECK(cudaMalloc(&device, N * sizeof(float)));
	CHECK(cudaMallocHost(&pinned, N * sizeof(float)));
	try_long_line(pageable, device);
	try_long_line(pinned, pinned);
	free(pageable);
	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(pinned));
}

static float clamped(const float (*values)[WIDTH], int x, int y)
{
	return values[y < HEIGHT ? y : HEIGHT - 1][x < WIDTH ? x : WIDTH - 1];
}

static void try_rows(void)
{
	static float values[HEIGHT][WIDTH], out[HEIGHT][WIDTH];
	cudaResourceDesc resource = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	float *memory, *device_out;
	size_t pitch;

	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			values[y][x] = (float)((x * 5 + y * 3) % 16);
	CHECK(cudaMallocPitch(&memory, &pitch, WIDTH * sizeof(float), HEIGHT));
	CHECK(cudaMalloc(&device_out, sizeof(out)));
	CHECK(cudaMemcpy2D(memory, pitch, values, sizeof(values[0]), sizeof(values[0]), HEIGHT,
		cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypePitch2D;
	resource.res.pitch2D.devPtr = memory;
	resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
	resource.res.pitch2D.width = WIDTH;
	resource.res.pitch2D.height = HEIGHT;
	resource.res.pitch2D.pitchInBytes = pitch;
	desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
	desc.filterMode = cudaFilterModeLinear;
	CHECK(cudaCreateTextureObject(&texture, &resource, &desc, NULL));
	sample<<<HEIGHT, WIDTH>>>(texture, device_out, 0.5f);
	CHECK(cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost));
	if (memcmp(out, values, sizeof(out)) != 0)
		fail("rows", 0);
	/* In the middle of four texels. */
	sample<<<HEIGHT, WIDTH>>>(texture, device_out, 1.0f);
	CHECK(cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost));
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++) {
			float wanted = 0.25f * (values[y][x] + clamped(values, x + 1, y) +
						       clamped(values, x, y + 1) +
						       clamped(values, x + 1, y + 1));

			if (fabsf(out[y][x] - wanted) > 2 * 16.0f / 256)
				fail("between rows", y * WIDTH + x);
		}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFree(memory));
	CHECK(cudaFree(device_out));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	do {
		try_lines();
		try_long_lines();
		try_rows();
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
