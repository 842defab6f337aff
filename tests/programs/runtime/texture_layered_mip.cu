/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Textures with layers, three dimensions and levels: layers and slices are separate, values
 * between slices and between levels are mixed, a level is chosen by number and clamped to the
 * texture's range.
 */

#define NAME "texture_layered_mip"

#include <math.h>

#include "../helpers/program.h"

#define SIZE 16
#define LAYERS 5
#define LEVELS 4
#define POINTS 64

static void fail(const char *what, double at, double got, double wanted)
{
	printf(NAME ": %s at %g: %g instead of %g\n", what, at, got, wanted);
	exit(1);
}

/* The value of a texel, for kernels and host. */
static __host__ __device__ float value(int x, int y, int z)
{
	return (float)(x + 20 * y + 400 * z);
}

static __global__ void read_layers(cudaTextureObject_t two, cudaTextureObject_t one, int *n_wrong)
{
	int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;

	if (tex2DLayered<float>(two, x + 0.5f, y + 0.5f, layer) != value(x, y, layer))
		atomicAdd(n_wrong, 1);
	if (tex1DLayered<float>(one, x + 0.5f, layer) != value(x, 0, layer))
		atomicAdd(n_wrong, 1);
}

static __global__ void read_slices(cudaTextureObject_t texture, float *out)
{
	int i = threadIdx.x;

	out[i] = tex3D<float>(texture, 3.5f, 4.5f, 0.5f + i * (LAYERS - 1) / (float)(POINTS - 1));
}

static __global__ void read_levels(cudaTextureObject_t texture, float *out, float last)
{
	int i = threadIdx.x;

	out[i] = tex2DLod<float>(texture, 0.5f, 0.5f, i * last / (float)(POINTS - 1));
}

static cudaTextureObject_t texture_on(const cudaResourceDesc *resource, const cudaTextureDesc *desc)
{
	cudaTextureObject_t texture;

	CHECK(cudaCreateTextureObject(&texture, resource, desc, NULL));
	return texture;
}

static cudaArray_t filled(int height, unsigned flags)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	static float values[LAYERS][SIZE][SIZE];
	cudaMemcpy3DParms copy = {};
	cudaArray_t array;

	for (int z = 0; z < LAYERS; z++)
		for (int y = 0; y < SIZE; y++)
			for (int x = 0; x < SIZE; x++)
				values[z][y][x] = value(x, y, z);
	CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(SIZE, height, LAYERS), flags));
	copy.srcPtr = make_cudaPitchedPtr(values, SIZE * sizeof(float), SIZE, SIZE);
	copy.dstArray = array;
	copy.extent = make_cudaExtent(SIZE, height ? height : 1, LAYERS);
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));
	return array;
}

static void try_layers(void)
{
	cudaArray_t two = filled(SIZE, cudaArrayLayered), one = filled(0, cudaArrayLayered);
	cudaResourceDesc resource = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t on_two, on_one;
	int *n_wrong, n;

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = two;
	desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
	on_two = texture_on(&resource, &desc);
	resource.res.array.array = one;
	on_one = texture_on(&resource, &desc);
	CHECK(cudaMalloc(&n_wrong, sizeof(int)));
	CHECK(cudaMemset(n_wrong, 0, sizeof(int)));
	read_layers<<<LAYERS, dim3(SIZE, SIZE)>>>(on_two, on_one, n_wrong);
	CHECK(cudaMemcpy(&n, n_wrong, sizeof(int), cudaMemcpyDeviceToHost));
	if (n != 0)
		fail("layers", 0, n, 0);
	CHECK(cudaDestroyTextureObject(on_two));
	CHECK(cudaDestroyTextureObject(on_one));
	CHECK(cudaFreeArray(two));
	CHECK(cudaFreeArray(one));
	CHECK(cudaFree(n_wrong));
}

static void try_slices(void)
{
	cudaArray_t array = filled(SIZE, 0);
	cudaResourceDesc resource = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	float out[POINTS], *device;

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	desc.filterMode = cudaFilterModeLinear;
	for (int i = 0; i < 3; i++)
		desc.addressMode[i] = cudaAddressModeClamp;
	texture = texture_on(&resource, &desc);
	CHECK(cudaMalloc(&device, sizeof(out)));
	read_slices<<<1, POINTS>>>(texture, device);
	CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
	for (int i = 0; i < POINTS; i++) {
		double z = i * (LAYERS - 1) / (double)(POINTS - 1), wanted = 3 + 20 * 4 + 400 * z;

		if (fabs((double)out[i] - wanted) > 400.0 / 256 + 0.01)
			fail("between slices", z, out[i], wanted);
	}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(device));
}

/* All texels of a level have one value: 100 times its number. */
static cudaMipmappedArray_t levels_new(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaMipmappedArray_t mipmap;
	float values[SIZE * SIZE];

	CHECK(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(SIZE, SIZE, 0), LEVELS));
	for (int i = 0; i < LEVELS; i++) {
		const size_t size = SIZE >> i;
		cudaArray_t level;

		for (size_t k = 0; k < size * size; k++)
			values[k] = 100.0f * (float)i;
		CHECK(cudaGetMipmappedArrayLevel(&level, mipmap, i));
		CHECK(cudaMemcpy2DToArray(level, 0, 0, values, size * sizeof(float),
			size * sizeof(float), size, cudaMemcpyHostToDevice));
	}
	return mipmap;
}

static void try_levels(cudaTextureFilterMode filter, float least, float most)
{
	cudaMipmappedArray_t mipmap = levels_new();
	cudaResourceDesc resource = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	float out[POINTS], *device;
	const float last = LEVELS;

	resource.resType = cudaResourceTypeMipmappedArray;
	resource.res.mipmap.mipmap = mipmap;
	desc.normalizedCoords = 1;
	desc.filterMode = cudaFilterModeLinear;
	desc.mipmapFilterMode = filter;
	desc.minMipmapLevelClamp = least;
	desc.maxMipmapLevelClamp = most;
	texture = texture_on(&resource, &desc);
	CHECK(cudaMalloc(&device, sizeof(out)));
	read_levels<<<1, POINTS>>>(texture, device, last);
	CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
	for (int i = 0; i < POINTS; i++) {
		double level = i * last / (double)(POINTS - 1), wanted;

		level = fmin(fmax(level, least), fmin(most, LEVELS - 1));
		wanted = 100 * (filter == cudaFilterModePoint ? floor(level + 0.5) : level);
		if (filter == cudaFilterModePoint && fabs(level - floor(level) - 0.5) < 0.01)
			continue;
		if (fabs((double)out[i] - wanted) > 100.0 / 256 + 0.01)
			fail("a level", level, out[i], wanted);
	}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeMipmappedArray(mipmap));
	CHECK(cudaFree(device));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	do {
		try_layers();
		try_slices();
		try_levels(cudaFilterModePoint, 0, LEVELS);
		try_levels(cudaFilterModeLinear, 0, LEVELS);
		try_levels(cudaFilterModeLinear, 1, 2.5f);
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
