/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Textures that show an array by a view: the same bytes in another format, some of its layers, some
 * of its levels. The view is read back.
 */

#define NAME "texture_view"

#include <string.h>

#include "../helpers/program.h"

#define SIZE 16
#define LAYERS 5
#define LEVELS 4

static unsigned *results;

static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	printf(NAME ": %s\n", what);
	exit(1);
}

static __global__ void read_words(cudaTextureObject_t texture, unsigned *out)
{
	int x = threadIdx.x, y = threadIdx.y;

	out[y * SIZE + x] = tex2D<unsigned>(texture, x + 0.5f, y + 0.5f);
}

static __global__ void read_bytes(cudaTextureObject_t texture, char4 *out)
{
	int x = threadIdx.x, y = threadIdx.y;

	out[y * SIZE + x] = tex2D<char4>(texture, x + 0.5f, y + 0.5f);
}

/* A layer outside is the nearest one inside. */
static __global__ void read_layers(cudaTextureObject_t texture, unsigned *out)
{
	out[threadIdx.x] = tex2DLayered<unsigned>(texture, 0.5f, 0.5f, threadIdx.x);
}

static __global__ void read_levels(cudaTextureObject_t texture, unsigned *out)
{
	out[threadIdx.x] = tex2DLod<unsigned>(texture, 0.5f, 0.5f, (float)threadIdx.x);
}

static cudaResourceViewDesc view_of(cudaResourceViewFormat format, int depth)
{
	cudaResourceViewDesc view = {};

	view.format = format;
	view.width = view.height = SIZE;
	view.depth = depth;
	return view;
}

static cudaTextureObject_t texture_on(
	const cudaResourceDesc *resource, const cudaResourceViewDesc *view)
{
	cudaResourceViewDesc got = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;

	desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
	desc.normalizedCoords = resource->resType == cudaResourceTypeMipmappedArray;
	desc.maxMipmapLevelClamp = LEVELS;
	CHECK(cudaCreateTextureObject(&texture, resource, &desc, view));
	CHECK(cudaGetTextureObjectResourceViewDesc(&got, texture));
	must(got.format == view->format && got.width == view->width && got.height == view->height &&
			got.depth == view->depth && got.firstLayer == view->firstLayer &&
			got.lastLayer == view->lastLayer &&
			got.firstMipmapLevel == view->firstMipmapLevel &&
			got.lastMipmapLevel == view->lastMipmapLevel,
		"the view is another one");
	return texture;
}

static cudaArray_t filled(cudaChannelFormatDesc format, const unsigned *words)
{
	cudaArray_t array;

	CHECK(cudaMallocArray(&array, &format, SIZE, SIZE));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, words, SIZE * sizeof(*words), SIZE * sizeof(*words),
		SIZE, cudaMemcpyHostToDevice));
	return array;
}

/*
 * Reads an array of four bytes a texel as integers. `has_bytes': also as bytes, which the runtime
 * reads as fractions if the array has other channels.
 */
static void try_format(cudaChannelFormatDesc format, bool has_bytes)
{
	cudaResourceViewDesc words = view_of(cudaResViewFormatUnsignedInt1, 0);
	cudaResourceViewDesc bytes = view_of(cudaResViewFormatSignedChar4, 0);
	unsigned values[SIZE * SIZE], got[SIZE * SIZE];
	cudaResourceDesc resource = {};
	cudaTextureObject_t texture;

	for (unsigned i = 0; i < SIZE * SIZE; i++)
		values[i] = 0x3f9b3700 + i * 0x1010101;
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = filled(format, values);
	texture = texture_on(&resource, &words);
	read_words<<<1, dim3(SIZE, SIZE)>>>(texture, results);
	CHECK(cudaMemcpy(got, results, sizeof(got), cudaMemcpyDeviceToHost));
	must(!memcmp(got, values, sizeof(got)), "other words");
	CHECK(cudaDestroyTextureObject(texture));
	if (has_bytes) {
		CHECK(cudaMemset(results, 0, sizeof(got)));
		texture = texture_on(&resource, &bytes);
		read_bytes<<<1, dim3(SIZE, SIZE)>>>(texture, (char4 *)results);
		CHECK(cudaMemcpy(got, results, sizeof(got), cudaMemcpyDeviceToHost));
		must(!memcmp(got, values, sizeof(got)), "other bytes");
		CHECK(cudaDestroyTextureObject(texture));
	}
	CHECK(cudaFreeArray(resource.res.array.array));
}

/* Layers 1 to 3 of five; a layer's texels are its number. */
static void try_layers(void)
{
	cudaResourceViewDesc view = view_of(cudaResViewFormatUnsignedInt1, LAYERS);
	cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
	static unsigned values[LAYERS][SIZE][SIZE];
	cudaResourceDesc resource = {};
	cudaMemcpy3DParms copy = {};
	cudaTextureObject_t texture;
	cudaArray_t array;
	unsigned got[3];

	for (unsigned i = 0; i < LAYERS * SIZE * SIZE; i++)
		values[0][0][i] = i / (SIZE * SIZE);
	CHECK(cudaMalloc3DArray(
		&array, &format, make_cudaExtent(SIZE, SIZE, LAYERS), cudaArrayLayered));
	copy.srcPtr = make_cudaPitchedPtr(values, SIZE * sizeof(unsigned), SIZE, SIZE);
	copy.dstArray = array;
	copy.extent = make_cudaExtent(SIZE, SIZE, LAYERS);
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	view.firstLayer = 1;
	view.lastLayer = 3;
	texture = texture_on(&resource, &view);
	read_layers<<<1, 3>>>(texture, results);
	CHECK(cudaMemcpy(got, results, sizeof(got), cudaMemcpyDeviceToHost));
	must(got[0] == 1 && got[1] == 2 && got[2] == 3, "other layers");
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
}

/* Levels 1 and 2 of four; a level's texels are its number. */
static void try_levels(void)
{
	cudaResourceViewDesc view = view_of(cudaResViewFormatUnsignedInt1, 0);
	cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
	cudaResourceDesc resource = {};
	cudaMipmappedArray_t mipmap;
	cudaTextureObject_t texture;
	unsigned values[SIZE * SIZE], got[LEVELS];

	CHECK(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(SIZE, SIZE, 0), LEVELS));
	for (unsigned i = 0; i < LEVELS; i++) {
		const size_t size = SIZE >> i, pitch = size * sizeof(unsigned);
		cudaArray_t level;

		for (size_t k = 0; k < size * size; k++)
			values[k] = i;
		CHECK(cudaGetMipmappedArrayLevel(&level, mipmap, i));
		CHECK(cudaMemcpy2DToArray(
			level, 0, 0, values, pitch, pitch, size, cudaMemcpyHostToDevice));
	}
	resource.resType = cudaResourceTypeMipmappedArray;
	resource.res.mipmap.mipmap = mipmap;
	view.firstMipmapLevel = 1;
	view.lastMipmapLevel = 2;
	texture = texture_on(&resource, &view);
	read_levels<<<1, LEVELS>>>(texture, results);
	CHECK(cudaMemcpy(got, results, sizeof(got), cudaMemcpyDeviceToHost));
	must(got[0] == 1 && got[1] == 2 && got[2] == 2 && got[3] == 2, "other levels");
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeMipmappedArray(mipmap));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	CHECK(cudaMalloc(&results, SIZE * SIZE * sizeof(*results)));
	do {
		try_format(cudaCreateChannelDesc<float>(), false);
		try_format(cudaCreateChannelDesc<short2>(), false);
		try_format(cudaCreateChannelDesc<uchar4>(), true);
		try_layers();
		try_levels();
	} while (++round < options.rounds || now_s() < until);
	CHECK(cudaFree(results));
	printf(NAME ": ok\n");
	return 0;
}
