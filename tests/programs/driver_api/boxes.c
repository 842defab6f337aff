/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies in two and three dimensions: parts of pitched memory, between host and
 * device and within the device, wide rows, many rows and slices, and refused
 * arguments.
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "boxes"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define EXPECT(result, call) expect((call), (result), #call, __LINE__)

struct place {
	size_t x, y, z, pitch, rows;
};

static void expect(CUresult result, CUresult wanted, const char *what, int line)
{
	if (result == wanted)
		return;
	printf(NAME ": line %d: %s: %d, not %d\n", line, what, result, wanted);
	exit(1);
}

static unsigned char *bytes_new(size_t size)
{
	unsigned char *bytes = malloc(size);

	if (!bytes) {
		printf(NAME ": no memory\n");
		exit(1);
	}
	return bytes;
}

static size_t at(const struct place *place, size_t x, size_t y, size_t z)
{
	return ((place->z + z) * place->rows + place->y + y) * place->pitch + place->x + x;
}

static void pattern(unsigned char *bytes, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525u + 1013904223u;
		bytes[i] = (unsigned char)(seed >> 24);
	}
}

static CUDA_MEMCPY3D box_of(
	const struct place *dst, const struct place *src, size_t width, size_t height, size_t depth)
{
	return (CUDA_MEMCPY3D){
		.dstXInBytes = dst->x,
		.dstY = dst->y,
		.dstZ = dst->z,
		.dstPitch = dst->pitch,
		.dstHeight = dst->rows,
		.srcXInBytes = src->x,
		.srcY = src->y,
		.srcZ = src->z,
		.srcPitch = src->pitch,
		.srcHeight = src->rows,
		.WidthInBytes = width,
		.Height = height,
		.Depth = depth,
	};
}

/* Host to device, device to device, device to host; memory around the box is unchanged. */
static void try_box(const struct place *outside, const struct place *inside, size_t width,
	size_t height, size_t depth, CUstream stream)
{
	size_t outside_size = at(outside, 0, 0, depth + 1),
	       inside_size = at(inside, 0, 0, depth + 1);
	unsigned char *from = bytes_new(outside_size), *to = bytes_new(outside_size);
	unsigned char *wanted = bytes_new(outside_size);
	CUDA_MEMCPY3D box;
	CUdeviceptr one, two;

	pattern(from, outside_size, 1);
	pattern(to, outside_size, 2);
	memcpy(wanted, to, outside_size);
	for (size_t z = 0; z < depth; z++)
		for (size_t y = 0; y < height; y++)
			memcpy(wanted + at(outside, 0, y, z), from + at(outside, 0, y, z), width);
	CHECK(cuMemAlloc(&one, inside_size));
	CHECK(cuMemAlloc(&two, outside_size));

	box = box_of(inside, outside, width, height, depth);
	box.srcMemoryType = CU_MEMORYTYPE_HOST;
	box.srcHost = from;
	box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.dstDevice = one;
	CHECK(cuMemcpy3DAsync(&box, stream));
	memset(from, 0, outside_size);

	box = box_of(outside, inside, width, height, depth);
	box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcDevice = one;
	box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	box.dstDevice = two;
	CHECK(cuMemcpy3DAsync(&box, stream));

	box = box_of(outside, outside, width, height, depth);
	box.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	box.srcDevice = two;
	box.dstMemoryType = CU_MEMORYTYPE_HOST;
	box.dstHost = to;
	CHECK(cuMemcpy3DAsync(&box, stream));
	CHECK(cuStreamSynchronize(stream));
	if (memcmp(to, wanted, outside_size) != 0) {
		printf(NAME ": a box of %zu x %zu x %zu came back changed\n", width, height, depth);
		exit(1);
	}
	CHECK(cuMemFree(one));
	CHECK(cuMemFree(two));
	free(from);
	free(to);
	free(wanted);
}

static void try_pitched(void)
{
	enum {
		WIDTH = 600,
		HEIGHT = 70
	};
	unsigned char *from = bytes_new((size_t)WIDTH * HEIGHT),
		      *to = bytes_new((size_t)WIDTH * HEIGHT);
	CUdeviceptr image;
	size_t pitch = 0;
	CUDA_MEMCPY2D copy = {0};

	pattern(from, (size_t)WIDTH * HEIGHT, 3);
	CHECK(cuMemAllocPitch(&image, &pitch, WIDTH, HEIGHT, 4));
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = from;
	copy.srcPitch = WIDTH;
	copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = image;
	copy.dstPitch = pitch;
	copy.WidthInBytes = WIDTH;
	copy.Height = HEIGHT;
	CHECK(cuMemcpy2D(&copy));

	/* Upside down in two halves, within the device. */
	copy = (CUDA_MEMCPY2D){0};
	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = copy.dstDevice = image;
	copy.srcPitch = copy.dstPitch = pitch;
	copy.srcY = HEIGHT / 2;
	copy.WidthInBytes = WIDTH;
	copy.Height = HEIGHT / 2;
	CHECK(cuMemcpy2DUnaligned(&copy));

	copy = (CUDA_MEMCPY2D){0};
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = image;
	copy.srcPitch = pitch;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = to;
	copy.dstPitch = WIDTH;
	copy.WidthInBytes = WIDTH;
	copy.Height = HEIGHT;
	CHECK(cuMemcpy2D(&copy));
	memcpy(from, from + (size_t)HEIGHT / 2 * WIDTH, (size_t)HEIGHT / 2 * WIDTH);
	if (memcmp(from, to, (size_t)WIDTH * HEIGHT) != 0) {
		printf(NAME ": pitched memory came back changed\n");
		exit(1);
	}

	copy.srcPitch = WIDTH - 1;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
	copy.srcPitch = pitch;
	copy.Height = HEIGHT + 1000000;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
	copy.Height = 0;
	CHECK(cuMemcpy2D(&copy));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(NULL));
	CHECK(cuMemFree(image));
	free(from);
	free(to);
}

static void try_peer(CUcontext context)
{
	unsigned values[4] = {1, 2, 3, 4}, back[4] = {0};
	CUdeviceptr one, two;

	CHECK(cuMemAlloc(&one, sizeof(values)));
	CHECK(cuMemAlloc(&two, sizeof(values)));
	CHECK(cuMemcpyHtoD(one, values, sizeof(values)));
	CHECK(cuMemcpyPeer(two, context, one, context, sizeof(values)));
	CHECK(cuMemcpyDtoH(back, two, sizeof(values)));
	if (memcmp(values, back, sizeof(values)) != 0) {
		printf(NAME ": a copy between contexts came back changed\n");
		exit(1);
	}
	CHECK(cuMemFree(one));
	CHECK(cuMemFree(two));
}

int main(void)
{
	const struct place small = {5, 2, 1, 64, 12}, other = {0, 0, 0, 48, 10};
	const struct place tall = {3, 1, 0, 100, 40003}, tight = {0, 0, 0, 64, 40000};
	const struct place wide = {1, 0, 0, 2500001, 4};
	CUdevice device = 0;
	CUcontext context = NULL;
	CUstream stream = NULL;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	try_box(&small, &other, 48, 10, 3, stream);
	try_box(&other, &small, 7, 1, 3, stream);
	try_box(&small, &other, 1, 1, 1, NULL);
	try_box(&tall, &tight, 64, 40000, 2, stream);
	try_box(&wide, &wide, 2400000, 3, 1, NULL);
	try_pitched();
	try_peer(context);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
