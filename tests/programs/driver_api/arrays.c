/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arrays and copies with an end in an array: from and to pageable, pinned and device
 * memory and other arrays, in one, two and three dimensions, layers and levels.
 * Memory beside a box is unchanged; an array reports its description; what the driver
 * refuses; and textures on integers.
 *
 * Runs: alone
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "arrays"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define EXPECT(result, call) expect((call), (result), #call, __LINE__)

static void expect(CUresult result, CUresult wanted, const char *what, int line)
{
	if (result == wanted)
		return;
	printf(NAME ": line %d: %s: %d, not %d\n", line, what, result, wanted);
	exit(1);
}

static void fail(const char *what, size_t i)
{
	printf(NAME ": %s, at %zu\n", what, i);
	exit(1);
}

static void pattern(unsigned char *bytes, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525u + 1013904223u;
		bytes[i] = (unsigned char)(seed >> 24);
	}
}

/* Memory of one of three kinds, which the host fills and reads by linear copies. */
enum kind {
	PAGEABLE,
	PINNED,
	DEVICE,
	KINDS,
};

struct memory {
	enum kind kind;
	size_t size;
	unsigned char *host; /* pageable or pinned: itself; device: a copy */
	CUdeviceptr device;
};

static struct memory memory_new(enum kind kind, size_t size)
{
	struct memory memory = {.kind = kind, .size = size};

	if (kind == PINNED)
		CHECK(cuMemHostAlloc((void **)&memory.host, size, 0));
	else
		memory.host = malloc(size);
	if (!memory.host)
		fail("no memory", size);
	if (kind == DEVICE)
		CHECK(cuMemAlloc(&memory.device, size));
	return memory;
}

static void memory_free(struct memory *memory)
{
	if (memory->kind == DEVICE)
		CHECK(cuMemFree(memory->device));
	if (memory->kind == PINNED)
		CHECK(cuMemFreeHost(memory->host));
	else
		free(memory->host);
}

static void memory_fill(struct memory *memory, unsigned seed)
{
	pattern(memory->host, memory->size, seed);
	if (memory->kind == DEVICE)
		CHECK(cuMemcpyHtoD(memory->device, memory->host, memory->size));
}

static void memory_look(struct memory *memory)
{
	if (memory->kind == DEVICE)
		CHECK(cuMemcpyDtoH(memory->host, memory->device, memory->size));
}

struct shape {
	size_t width, height, depth; /* elements, rows, slices */
	CUarray_format format;
	unsigned n_channels, element;
	unsigned flags;
};

static CUarray array_new(const struct shape *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {shape->width, shape->height, shape->depth, shape->format,
		shape->n_channels, shape->flags};
	CUDA_ARRAY3D_DESCRIPTOR said = {0};
	CUarray array = NULL;

	CHECK(cuArray3DCreate(&array, &desc));
	CHECK(cuArray3DGetDescriptor(&said, array));
	if (said.Width != desc.Width || said.Height != desc.Height || said.Depth != desc.Depth ||
		said.Format != desc.Format || said.NumChannels != desc.NumChannels ||
		said.Flags != desc.Flags)
		fail("an array says something else of itself", shape->width);
	return array;
}

/* Sets one end of a copy to linear memory. */
static void memory_end(CUDA_MEMCPY3D *copy, int is_dst, const struct memory *memory, size_t pitch,
	size_t rows, size_t x, size_t y)
{
	CUmemorytype type = memory->kind == DEVICE   ? CU_MEMORYTYPE_DEVICE
			    : memory->kind == PINNED ? CU_MEMORYTYPE_UNIFIED
						     : CU_MEMORYTYPE_HOST;
	CUdeviceptr device =
		memory->kind == DEVICE ? memory->device : (CUdeviceptr)(size_t)memory->host;

	if (is_dst) {
		copy->dstMemoryType = type;
		copy->dstHost = memory->host;
		copy->dstDevice = device;
		copy->dstPitch = pitch;
		copy->dstHeight = rows;
		copy->dstXInBytes = x;
		copy->dstY = y;
	} else {
		copy->srcMemoryType = type;
		copy->srcHost = memory->host;
		copy->srcDevice = device;
		copy->srcPitch = pitch;
		copy->srcHeight = rows;
		copy->srcXInBytes = x;
		copy->srcY = y;
	}
}

/* Fills a whole array, copies a box of it to another array, and reads that back. */
static void try_kinds(const struct shape *shape, enum kind from_kind, enum kind to_kind)
{
	const size_t height = shape->height ? shape->height : 1,
		     depth = shape->depth ? shape->depth : 1;
	const size_t width = shape->width * shape->element, pitch = width + 32, rows = height + 1;
	const size_t x = shape->element, w = width - 2 * x;
	const size_t y = height > 2, h = height - 2 * y, z = depth > 2, d = depth - z;
	struct memory from = memory_new(from_kind, pitch * rows * depth);
	struct memory to = memory_new(to_kind, pitch * rows * depth);
	unsigned char *wanted = malloc(width * height * depth),
		      *base = malloc(width * height * depth);
	CUarray one = array_new(shape), two = array_new(shape);
	CUDA_MEMCPY3D copy = {.WidthInBytes = width, .Height = height, .Depth = depth};
	CUstream stream = NULL;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	memory_fill(&from, 1);
	memory_fill(&to, 2);
	pattern(base, width * height * depth, 3);

	memory_end(&copy, 0, &from, pitch, rows, 0, 0);
	copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.dstArray = one;
	CHECK(cuMemcpy3DAsync(&copy, stream));
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = base;
	copy.srcPitch = width;
	copy.srcHeight = height;
	copy.dstArray = two;
	CHECK(cuMemcpy3DAsync(&copy, stream));

	copy = (CUDA_MEMCPY3D){.WidthInBytes = w, .Height = h, .Depth = d};
	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.srcArray = one;
	copy.dstArray = two;
	copy.srcXInBytes = x;
	copy.srcY = y;
	copy.dstXInBytes = 2 * x;
	copy.dstY = 2 * y;
	copy.dstZ = z;
	CHECK(cuMemcpy3DAsync(&copy, stream));

	copy = (CUDA_MEMCPY3D){.WidthInBytes = width, .Height = height, .Depth = depth};
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.srcArray = two;
	memory_end(&copy, 1, &to, pitch, rows, 16, 1);
	copy.Height = height;
	CHECK(cuMemcpy3DAsync(&copy, stream));
	CHECK(cuStreamSynchronize(stream));

	memory_look(&from);
	memory_look(&to);
	memcpy(wanted, base, width * height * depth);
	for (size_t k = 0; k < d; k++)
		for (size_t j = 0; j < h; j++)
			memcpy(wanted + ((k + z) * height + j + 2 * y) * width + 2 * x,
				from.host + (k * rows + j + y) * pitch + x, w);
	for (size_t k = 0; k < depth; k++)
		for (size_t j = 0; j < height; j++)
			if (memcmp(to.host + (k * rows + j + 1) * pitch + 16,
				    wanted + (k * height + j) * width, width) != 0)
				fail("a box changed on its way", k * height + j);
	pattern(base, 16, 2);
	if (memcmp(to.host, base, 16) != 0)
		fail("bytes beside a box changed", 0);
	CHECK(cuArrayDestroy(one));
	CHECK(cuArrayDestroy(two));
	CHECK(cuStreamDestroy(stream));
	memory_free(&from);
	memory_free(&to);
	free(wanted);
	free(base);
}

static void try_shapes(void)
{
	const struct shape shapes[] = {
		{100, 0, 0, CU_AD_FORMAT_FLOAT, 1, 4, 0},
		{64, 33, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 4, 0},
		{700, 500, 0, CU_AD_FORMAT_FLOAT, 4, 16, 0},
		{20, 10, 5, CU_AD_FORMAT_SIGNED_INT16, 2, 4, 0},
		{30, 20, 4, CU_AD_FORMAT_HALF, 1, 2, CUDA_ARRAY3D_LAYERED},
		{16, 16, 6, CU_AD_FORMAT_UNSIGNED_INT32, 2, 8, CUDA_ARRAY3D_CUBEMAP},
		{33, 17, 3, CU_AD_FORMAT_SIGNED_INT8, 1, 1, CUDA_ARRAY3D_SURFACE_LDST},
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (int from = 0; from < KINDS; from++)
			try_kinds(&shapes[i], from, (enum kind)((from + i) % KINDS));
}

/* Copies within a row, and copies of several rows. */
static void try_lines(void)
{
	unsigned char from[256], to[256] = {0}, *pinned = NULL;
	CUDA_ARRAY_DESCRIPTOR desc = {256, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1}, said = {0};
	CUDA_MEMCPY2D copy = {0};
	CUarray one = NULL, two = NULL;
	CUdeviceptr device = 0;

	pattern(from, sizeof(from), 4);
	CHECK(cuArrayCreate(&one, &desc));
	CHECK(cuArrayCreate(&two, &desc));
	CHECK(cuArrayGetDescriptor(&said, one));
	if (said.Width != 256 || said.Height != 0 || said.NumChannels != 1)
		fail("a descriptor", said.Width);
	CHECK(cuMemAlloc(&device, 256));
	CHECK(cuMemHostAlloc((void **)&pinned, 256, 0));
	CHECK(cuMemcpyHtoA(one, 0, from, 256));
	CHECK(cuMemcpyAtoA(two, 16, one, 32, 64));
	CHECK(cuMemcpyAtoD(device, two, 16, 64));
	CHECK(cuMemcpyDtoA(two, 100, device, 64));
	CHECK(cuMemcpyAtoH(to, two, 100, 64));
	if (memcmp(to, from + 32, 64) != 0)
		fail("a line", 0);
	memcpy(pinned, from, 256);
	CHECK(cuMemcpyHtoAAsync(two, 0, pinned, 256, NULL));
	memset(to, 0, sizeof(to));
	CHECK(cuStreamSynchronize(NULL));
	CHECK(cuMemcpyAtoHAsync(to, two, 0, 256, NULL));
	CHECK(cuStreamSynchronize(NULL));
	if (memcmp(to, from, 256) != 0)
		fail("an asynchronous line", 0);

	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.srcArray = two;
	copy.dstArray = one;
	copy.srcXInBytes = 1;
	copy.WidthInBytes = 200;
	copy.Height = 1;
	CHECK(cuMemcpy2D(&copy));
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = to;
	copy.srcArray = one;
	copy.srcXInBytes = 0;
	CHECK(cuMemcpy2DUnaligned(&copy));
	if (memcmp(to, from + 1, 200) != 0)
		fail("a line by rows", 0);
	copy.WidthInBytes = 257;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
	copy.WidthInBytes = 1;
	copy.srcY = 1;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH(to, one, 250, 7));
	CHECK(cuMemFreeHost(pinned));
	CHECK(cuMemFree(device));
	CHECK(cuArrayDestroy(one));
	CHECK(cuArrayDestroy(two));
}

static void try_levels(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR desc = {64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	CUDA_ARRAY3D_DESCRIPTOR said = {0};
	CUmipmappedArray mipmap = NULL;
	CUarray level = NULL;
	float from[64 * 32], to[64 * 32];

	CHECK(cuMipmappedArrayCreate(&mipmap, &desc, 4));
	for (unsigned i = 0; i < 4; i++) {
		const size_t width = 64u >> i, height = 32u >> i;
		CUDA_MEMCPY2D copy = {0};

		CHECK(cuMipmappedArrayGetLevel(&level, mipmap, i));
		CHECK(cuArray3DGetDescriptor(&said, level));
		if (said.Width != width || said.Height != height)
			fail("a level's size", i);
		for (size_t k = 0; k < width * height; k++)
			from[k] = (float)k + 1000.0f * (float)i;
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = from;
		copy.srcPitch = copy.dstPitch = copy.WidthInBytes = width * sizeof(float);
		copy.Height = height;
		copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.dstArray = level;
		CHECK(cuMemcpy2D(&copy));
		copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.srcArray = level;
		copy.dstMemoryType = CU_MEMORYTYPE_HOST;
		copy.dstHost = to;
		CHECK(cuMemcpy2D(&copy));
		if (memcmp(from, to, width * height * sizeof(float)) != 0)
			fail("a level", i);
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, mipmap, 4));
	CHECK(cuMipmappedArrayDestroy(mipmap));
}

static void try_refusals(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {16, 16, 0, CU_AD_FORMAT_FLOAT, 3, 0};
	CUarray array = NULL;
	size_t before = 0, after = 0, total = 0;

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&array, &desc));
	desc.NumChannels = 1;
	desc.Width = 0;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&array, &desc));
	desc.Width = (size_t)1 << 30;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&array, &desc));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&array, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(NULL, &desc));

	/* Its memory is taken from the free memory. */
	desc.Width = 4096;
	desc.Height = 4096;
	CHECK(cuMemGetInfo(&before, &total));
	CHECK(cuArray3DCreate(&array, &desc));
	CHECK(cuMemGetInfo(&after, &total));
	if (before - after < (size_t)48 << 20)
		fail("an array of 64 MiB took other memory", before - after);
	CHECK(cuArrayDestroy(array));
}

/* Integers of 32 bits never become floats, but their textures may have a linear filter. */
static void try_integer_filter(void)
{
	const CUarray_format formats[] = {
		CU_AD_FORMAT_SIGNED_INT32,
		CU_AD_FORMAT_UNSIGNED_INT32,
	};
	CUDA_TEXTURE_DESC sampler = {
		.filterMode = CU_TR_FILTER_MODE_LINEAR,
		.flags = CU_TRSF_NORMALIZED_COORDINATES,
	};

	for (int i = 0; i < 2; i++) {
		CUDA_ARRAY3D_DESCRIPTOR desc = {16, 0, 0, formats[i], 1, 0};
		CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
		CUtexObject texture = 0;

		CHECK(cuArray3DCreate(&resource.res.array.hArray, &desc));
		CHECK(cuTexObjectCreate(&texture, &resource, &sampler, NULL));
		CHECK(cuTexObjectDestroy(texture));
		CHECK(cuArrayDestroy(resource.res.array.hArray));
	}
}

int main(void)
{
	CUcontext context = NULL;
	CUdevice device = 0;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	try_shapes();
	try_lines();
	try_levels();
	try_refusals();
	try_integer_filter();
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
