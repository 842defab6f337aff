/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Surfaces: kernels write and read arrays of one, two and three dimensions and layers, by bytes;
 * outside they read zeros and write nothing, or use the edge. Another kernel samples what one
 * kernel wrote, and the host copies it out.
 */

#define NAME "surface"

#include "../helpers/program.h"

#define WIDTH 40
#define HEIGHT 24
#define DEPTH 6

static void fail(const char *what, long i)
{
	printf(NAME ": %s, element %ld\n", what, i);
	exit(1);
}

static __global__ void write_3d(cudaSurfaceObject_t surface)
{
	int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;

	surf3Dwrite((float)(x + 100 * y + 10000 * z), surface, x * (int)sizeof(float), y, z);
}

static __global__ void double_3d(cudaSurfaceObject_t surface)
{
	int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
	float value = surf3Dread<float>(surface, x * (int)sizeof(float), y, z);

	surf3Dwrite(2 * value, surface, x * (int)sizeof(float), y, z);
}

/* Mirrored horizontally, one element at a time. */
static __global__ void mirror_2d(cudaSurfaceObject_t to, cudaSurfaceObject_t from)
{
	int x = threadIdx.x, y = blockIdx.x;
	uchar4 value = surf2Dread<uchar4>(from, (WIDTH - 1 - x) * (int)sizeof(uchar4), y);

	surf2Dwrite(value, to, x * (int)sizeof(uchar4), y);
}

/* A shift to the right and down: reads from outside, and writes to outside. */
static __global__ void shift_2d(cudaSurfaceObject_t to, cudaSurfaceObject_t from, bool is_clamped)
{
	int x = (int)threadIdx.x - 1, y = (int)blockIdx.x - 1;
	uchar4 value;

	if (is_clamped)
		value = surf2Dread<uchar4>(from, x * (int)sizeof(uchar4), y, cudaBoundaryModeClamp);
	else
		value = surf2Dread<uchar4>(from, x * (int)sizeof(uchar4), y, cudaBoundaryModeZero);
	surf2Dwrite(value, to, (x + 1) * (int)sizeof(uchar4), y + 1, cudaBoundaryModeZero);
}

static __global__ void write_layers(cudaSurfaceObject_t two, cudaSurfaceObject_t one)
{
	int x = threadIdx.x, layer = blockIdx.y;
	short2 value = make_short2((short)(x + 50 * blockIdx.x), (short)-layer);

	surf2DLayeredwrite(value, two, x * (int)sizeof(short2), blockIdx.x, layer);
	if (blockIdx.x == 0)
		surf1Dwrite(make_float4(x, layer, -1, 0.5f), one,
			(x + layer * WIDTH) * (int)sizeof(float4));
}

static __global__ void sample_layers(cudaTextureObject_t texture, int *n_wrong)
{
	int x = threadIdx.x, layer = blockIdx.y;
	short2 value = tex2DLayered<short2>(texture, x + 0.5f, blockIdx.x + 0.5f, layer);

	if (value.x != x + 50 * (int)blockIdx.x || value.y != -layer)
		atomicAdd(n_wrong, 1);
}

static cudaSurfaceObject_t surface_on(cudaArray_t array)
{
	cudaResourceDesc resource = {};
	cudaSurfaceObject_t surface;

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	CHECK(cudaCreateSurfaceObject(&surface, &resource));
	return surface;
}

static void try_3d(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	static float out[DEPTH][HEIGHT][WIDTH];
	cudaMemcpy3DParms copy = {};
	cudaSurfaceObject_t surface;
	cudaArray_t array;

	CHECK(cudaMalloc3DArray(
		&array, &format, make_cudaExtent(WIDTH, HEIGHT, DEPTH), cudaArraySurfaceLoadStore));
	surface = surface_on(array);
	write_3d<<<dim3(HEIGHT, DEPTH), WIDTH>>>(surface);
	double_3d<<<dim3(HEIGHT, DEPTH), WIDTH>>>(surface);
	copy.srcArray = array;
	copy.dstPtr = make_cudaPitchedPtr(out, sizeof(out[0][0]), WIDTH, HEIGHT);
	copy.extent = make_cudaExtent(WIDTH, HEIGHT, DEPTH);
	copy.kind = cudaMemcpyDeviceToHost;
	CHECK(cudaMemcpy3D(&copy));
	for (int z = 0; z < DEPTH; z++)
		for (int y = 0; y < HEIGHT; y++)
			for (int x = 0; x < WIDTH; x++)
				if (out[z][y][x] != 2 * (float)(x + 100 * y + 10000 * z))
					fail("three dimensions", (z * HEIGHT + y) * WIDTH + x);
	CHECK(cudaDestroySurfaceObject(surface));
	CHECK(cudaFreeArray(array));
}

static bool is_same(uchar4 a, uchar4 b)
{
	return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

static void try_2d(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
	static uchar4 in[HEIGHT][WIDTH], out[HEIGHT][WIDTH];
	cudaSurfaceObject_t from, to;
	cudaArray_t one, two;

	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			in[y][x] = make_uchar4(x + 1, y, x * y, 255 - x);
	CHECK(cudaMallocArray(&one, &format, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
	CHECK(cudaMallocArray(&two, &format, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
	CHECK(cudaMemcpy2DToArray(
		one, 0, 0, in, sizeof(in[0]), sizeof(in[0]), HEIGHT, cudaMemcpyHostToDevice));
	from = surface_on(one);
	to = surface_on(two);
	mirror_2d<<<HEIGHT, WIDTH>>>(to, from);
	CHECK(cudaMemcpy2DFromArray(
		out, sizeof(out[0]), two, 0, 0, sizeof(out[0]), HEIGHT, cudaMemcpyDeviceToHost));
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			if (!is_same(out[y][x], in[y][WIDTH - 1 - x]))
				fail("mirrored", y * WIDTH + x);
	for (int is_clamped = 0; is_clamped < 2; is_clamped++) {
		const uchar4 zero = make_uchar4(0, 0, 0, 0);

		shift_2d<<<HEIGHT + 2, WIDTH + 2>>>(to, from, is_clamped);
		CHECK(cudaMemcpy2DFromArray(out, sizeof(out[0]), two, 0, 0, sizeof(out[0]), HEIGHT,
			cudaMemcpyDeviceToHost));
		for (int y = 0; y < HEIGHT; y++)
			for (int x = 0; x < WIDTH; x++) {
				bool is_outside = x == 0 || y == 0;
				uchar4 edge = in[y ? y - 1 : 0][x ? x - 1 : 0];

				if (!is_same(out[y][x], is_outside && !is_clamped ? zero : edge))
					fail(is_clamped ? "at the edge" : "outside", y * WIDTH + x);
			}
	}
	CHECK(cudaDestroySurfaceObject(from));
	CHECK(cudaDestroySurfaceObject(to));
	CHECK(cudaFreeArray(one));
	CHECK(cudaFreeArray(two));
}

static void try_layers(void)
{
	cudaChannelFormatDesc shorts = cudaCreateChannelDesc<short2>();
	cudaChannelFormatDesc floats = cudaCreateChannelDesc<float4>();
	static float4 out[DEPTH * WIDTH];
	cudaResourceDesc resource = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	cudaSurfaceObject_t on_two, on_one;
	cudaArray_t two, one;
	int *n_wrong, n;

	CHECK(cudaMalloc3DArray(&two, &shorts, make_cudaExtent(WIDTH, HEIGHT, DEPTH),
		cudaArrayLayered | cudaArraySurfaceLoadStore));
	CHECK(cudaMallocArray(&one, &floats, DEPTH * WIDTH, 0, cudaArraySurfaceLoadStore));
	on_two = surface_on(two);
	on_one = surface_on(one);
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = two;
	CHECK(cudaCreateTextureObject(&texture, &resource, &desc, NULL));
	CHECK(cudaMalloc(&n_wrong, sizeof(int)));
	CHECK(cudaMemset(n_wrong, 0, sizeof(int)));
	write_layers<<<dim3(HEIGHT, DEPTH), WIDTH>>>(on_two, on_one);
	sample_layers<<<dim3(HEIGHT, DEPTH), WIDTH>>>(texture, n_wrong);
	CHECK(cudaMemcpy(&n, n_wrong, sizeof(int), cudaMemcpyDeviceToHost));
	if (n != 0)
		fail("layers", n);
	CHECK(cudaMemcpy2DFromArray(
		out, sizeof(out), one, 0, 0, sizeof(out), 1, cudaMemcpyDeviceToHost));
	for (int i = 0; i < DEPTH * WIDTH; i++)
		if (out[i].x != i % WIDTH || out[i].y != i / WIDTH || out[i].z != -1 ||
			out[i].w != 0.5f)
			fail("one dimension", i);
	CHECK(cudaDestroySurfaceObject(on_two));
	CHECK(cudaDestroySurfaceObject(on_one));
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(two));
	CHECK(cudaFreeArray(one));
	CHECK(cudaFree(n_wrong));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	do {
		try_3d();
		try_2d();
		try_layers();
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
