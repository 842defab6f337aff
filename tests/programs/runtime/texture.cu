/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Textures on two-dimensional arrays: texels and values between them, coordinates outside in each
 * address mode, coordinates from 0 to 1, integers read as they are and as fractions, gathered
 * texels. The host computes the same; weights between texels have 8 fractional bits.
 */

#define NAME "texture"

#include <cuda_fp16.h>
#include <math.h>

#include "../helpers/program.h"

#define WIDTH 37
#define HEIGHT 23
#define SAMPLES 4096

static float texels[HEIGHT][WIDTH];

static __global__ void sample(cudaTextureObject_t texture, const float2 *at, float *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = tex2D<float>(texture, at[i].x, at[i].y);
}

static __global__ void gather(cudaTextureObject_t texture, const float2 *at, float4 *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = tex2Dgather<float4>(texture, at[i].x, at[i].y, 0);
}

template <typename T> static __global__ void read_all(cudaTextureObject_t texture, T *out)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;

	if (x < WIDTH)
		out[y * WIDTH + x] = tex2D<T>(texture, x + 0.5f, y + 0.5f);
}

static void fail(const char *what, double x, double y, double got, double wanted)
{
	printf(NAME ": %s at %g, %g: %g instead of %g\n", what, x, y, got, wanted);
	exit(1);
}

/* The index in an address mode; -1: outside. */
static int address(long i, int n, cudaTextureAddressMode mode, bool is_normalized)
{
	long folded;

	if (i >= 0 && i < n)
		return (int)i;
	if (mode == cudaAddressModeBorder)
		return -1;
	if (mode == cudaAddressModeClamp || !is_normalized)
		return i < 0 ? 0 : n - 1;
	if (mode == cudaAddressModeWrap)
		return (int)(((i % n) + n) % n);
	folded = ((i % (2 * n)) + 2 * n) % (2 * n);
	return (int)(folded < n ? folded : 2 * n - 1 - folded);
}

static float texel(long x, long y, const cudaTextureDesc *desc)
{
	int i = address(x, WIDTH, desc->addressMode[0], desc->normalizedCoords);
	int j = address(y, HEIGHT, desc->addressMode[1], desc->normalizedCoords);

	return i < 0 || j < 0 ? desc->borderColor[0] : texels[j][i];
}

static double filtered(double x, double y, const cudaTextureDesc *desc, double *ret_spread)
{
	long i = (long)floor(x - 0.5), j = (long)floor(y - 0.5);
	double a = x - 0.5 - (double)i, b = y - 0.5 - (double)j;
	float t[4] = {texel(i, j, desc), texel(i + 1, j, desc), texel(i, j + 1, desc),
		texel(i + 1, j + 1, desc)};

	*ret_spread =
		fmax(fmax(t[0], t[1]), fmax(t[2], t[3])) - fmin(fmin(t[0], t[1]), fmin(t[2], t[3]));
	return (1 - a) * (1 - b) * t[0] + a * (1 - b) * t[1] + (1 - a) * b * t[2] + a * b * t[3];
}

static cudaTextureObject_t texture_on(cudaArray_t array, const cudaTextureDesc *desc)
{
	cudaResourceDesc resource = {};
	cudaTextureObject_t texture;

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	CHECK(cudaCreateTextureObject(&texture, &resource, desc, NULL));
	return texture;
}

/* Away from points where rounding decides which texels are read. */
static float coordinate(unsigned *seed, int n, bool is_point)
{
	float x;

	*seed = *seed * 1664525u + 1013904223u;
	x = (float)(*seed >> 8) / (float)(1 << 24) * (float)(3 * n) - (float)n;
	if (is_point)
		return floorf(x) + 0.25f + 0.5f * (float)(*seed >> 8 & 1);
	return x;
}

static void try_sampling(cudaArray_t array, cudaTextureAddressMode mode,
	cudaTextureFilterMode filter, int is_normalized)
{
	const bool is_point = filter == cudaFilterModePoint;
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	float2 at[SAMPLES], *device_at;
	float out[SAMPLES], *device_out;
	unsigned seed = 1;

	desc.addressMode[0] = desc.addressMode[1] = mode;
	desc.filterMode = filter;
	desc.normalizedCoords = is_normalized;
	desc.borderColor[0] = 5;
	texture = texture_on(array, &desc);
	for (int i = 0; i < SAMPLES; i++)
		at[i] = make_float2(
			coordinate(&seed, WIDTH, is_point) / (is_normalized ? (float)WIDTH : 1.0f),
			coordinate(&seed, HEIGHT, is_point) /
				(is_normalized ? (float)HEIGHT : 1.0f));
	CHECK(cudaMalloc(&device_at, sizeof(at)));
	CHECK(cudaMalloc(&device_out, sizeof(out)));
	CHECK(cudaMemcpy(device_at, at, sizeof(at), cudaMemcpyHostToDevice));
	sample<<<SAMPLES / 128, 128>>>(texture, device_at, device_out, SAMPLES);
	CHECK(cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost));
	for (int i = 0; i < SAMPLES; i++) {
		double x = (double)at[i].x * (is_normalized ? WIDTH : 1);
		double y = (double)at[i].y * (is_normalized ? HEIGHT : 1), spread, wanted;

		if (is_point) {
			wanted = texel((long)floor(x), (long)floor(y), &desc);
			if ((double)out[i] != wanted)
				fail("a texel", x, y, out[i], wanted);
			continue;
		}
		/* Each of two weights differs by at most a step of 1/256. */
		wanted = filtered(x, y, &desc, &spread);
		if (fabs((double)out[i] - wanted) > 2 * spread / 256 + 1e-4)
			fail("a filtered value", x, y, out[i], wanted);
	}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFree(device_at));
	CHECK(cudaFree(device_out));
}

static void try_floats(void)
{
	const cudaTextureAddressMode modes[] = {cudaAddressModeClamp, cudaAddressModeBorder,
		cudaAddressModeWrap, cudaAddressModeMirror};
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaArray_t array;

	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			texels[y][x] = (float)((x * 7 + y * 13) % 32) - 8;
	CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, texels, sizeof(texels[0]), sizeof(texels[0]), HEIGHT,
		cudaMemcpyHostToDevice));
	for (int i = 0; i < 4; i++)
		for (int is_normalized = i > 1; is_normalized < 2; is_normalized++) {
			try_sampling(array, modes[i], cudaFilterModePoint, is_normalized);
			try_sampling(array, modes[i], cudaFilterModeLinear, is_normalized);
		}
	CHECK(cudaFreeArray(array));
}

/* Values of a format, read as `T': the array's values times `scale'. */
template <typename S, typename T> static void try_format(cudaTextureReadMode mode, double scale)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<S>();
	static S values[HEIGHT][WIDTH];
	static T out[HEIGHT][WIDTH];
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	cudaArray_t array;
	T *device;

	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			values[y][x] =
				(S)(float)((x * 11 + y * 17) % 127 - ((S)-1 < (S)0 ? 60 : 0));
	CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, values, sizeof(values[0]), sizeof(values[0]), HEIGHT,
		cudaMemcpyHostToDevice));
	CHECK(cudaMalloc(&device, sizeof(out)));
	desc.readMode = mode;
	texture = texture_on(array, &desc);
	read_all<T><<<dim3((WIDTH + 31) / 32, HEIGHT), 32>>>(texture, device);
	CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++) {
			double wanted = (double)values[y][x] * scale;

			if (fabs((double)out[y][x] - wanted) > fabs(wanted) * 1e-5)
				fail("a format", x, y, (double)out[y][x], wanted);
		}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(device));
}

/* Four channels of bytes, and of halves. */
static void try_channels(void)
{
	cudaChannelFormatDesc bytes = cudaCreateChannelDesc<uchar4>();
	cudaChannelFormatDesc halves = cudaCreateChannelDescHalf2();
	static uchar4 values[HEIGHT][WIDTH], out[HEIGHT][WIDTH];
	static __half2 pairs[HEIGHT][WIDTH];
	static float2 read[HEIGHT][WIDTH];
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	cudaArray_t array;
	uchar4 *device;
	float2 *device_read;

	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++) {
			values[y][x] = make_uchar4(x, y, x + y, 255 - x);
			pairs[y][x] = __floats2half2_rn((float)x * 0.5f, (float)-y);
		}
	CHECK(cudaMallocArray(&array, &bytes, WIDTH, HEIGHT));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, values, sizeof(values[0]), sizeof(values[0]), HEIGHT,
		cudaMemcpyHostToDevice));
	CHECK(cudaMalloc(&device, sizeof(out)));
	texture = texture_on(array, &desc);
	read_all<uchar4><<<dim3((WIDTH + 31) / 32, HEIGHT), 32>>>(texture, device);
	CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
	if (memcmp(values, out, sizeof(out)) != 0)
		fail("four bytes", 0, 0, out[0][1].x, values[0][1].x);
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(device));

	CHECK(cudaMallocArray(&array, &halves, WIDTH, HEIGHT));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, pairs, sizeof(pairs[0]), sizeof(pairs[0]), HEIGHT,
		cudaMemcpyHostToDevice));
	CHECK(cudaMalloc(&device_read, sizeof(read)));
	texture = texture_on(array, &desc);
	read_all<float2><<<dim3((WIDTH + 31) / 32, HEIGHT), 32>>>(texture, device_read);
	CHECK(cudaMemcpy(read, device_read, sizeof(read), cudaMemcpyDeviceToHost));
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			if (read[y][x].x != (float)x * 0.5f || read[y][x].y != (float)-y)
				fail("a pair of halves", x, y, read[y][x].x, x * 0.5);
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(device_read));
}

static void try_gather(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	float2 at[SAMPLES], *device_at;
	static float4 out[SAMPLES];
	float4 *device_out;
	cudaTextureDesc desc = {};
	cudaTextureObject_t texture;
	cudaArray_t array;
	unsigned seed = 3;

	CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT, cudaArrayTextureGather));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, texels, sizeof(texels[0]), sizeof(texels[0]), HEIGHT,
		cudaMemcpyHostToDevice));
	desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
	texture = texture_on(array, &desc);
	for (int i = 0; i < SAMPLES; i++)
		at[i] = make_float2(
			coordinate(&seed, WIDTH, true), coordinate(&seed, HEIGHT, true));
	CHECK(cudaMalloc(&device_at, sizeof(at)));
	CHECK(cudaMalloc(&device_out, sizeof(out)));
	CHECK(cudaMemcpy(device_at, at, sizeof(at), cudaMemcpyHostToDevice));
	gather<<<SAMPLES / 128, 128>>>(texture, device_at, device_out, SAMPLES);
	CHECK(cudaMemcpy(out, device_out, sizeof(out), cudaMemcpyDeviceToHost));
	for (int i = 0; i < SAMPLES; i++) {
		long x = (long)floorf(at[i].x - 0.5f), y = (long)floorf(at[i].y - 0.5f);

		if (out[i].x != texel(x, y + 1, &desc) || out[i].y != texel(x + 1, y + 1, &desc) ||
			out[i].z != texel(x + 1, y, &desc) || out[i].w != texel(x, y, &desc))
			fail("a gathered texel", at[i].x, at[i].y, out[i].w, texel(x, y, &desc));
	}
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(device_at));
	CHECK(cudaFree(device_out));
}

/* The description that a texture returns, and invalid objects. */
static void try_questions(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>(), said_format;
	cudaResourceDesc said_resource;
	cudaTextureDesc desc = {}, said;
	cudaTextureObject_t texture;
	cudaExtent extent;
	unsigned flags;
	cudaArray_t array;

	CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT));
	CHECK(cudaArrayGetInfo(&said_format, &extent, &flags, array));
	if (said_format.x != 32 || said_format.y != 0 || said_format.f != format.f ||
		extent.width != WIDTH || extent.height != HEIGHT || flags != 0)
		fail("an array's facts", 0, 0, (double)extent.width, WIDTH);
	desc.addressMode[0] = desc.addressMode[1] = desc.addressMode[2] = cudaAddressModeBorder;
	desc.readMode = cudaReadModeElementType;
	texture = texture_on(array, &desc);
	CHECK(cudaGetTextureObjectResourceDesc(&said_resource, texture));
	CHECK(cudaGetTextureObjectTextureDesc(&said, texture));
	if (said_resource.resType != cudaResourceTypeArray ||
		said_resource.res.array.array != array)
		fail("what a texture is on", 0, 0, said_resource.resType, cudaResourceTypeArray);
	if (said.addressMode[1] != cudaAddressModeBorder)
		fail("the mode of a texture", 0, 1, said.addressMode[1], cudaAddressModeBorder);
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaFreeArray(array));
	memset(&said_resource, 0, sizeof(said_resource));
	said_resource.resType = cudaResourceTypeArray;
	if (cudaCreateTextureObject(&texture, &said_resource, &desc, NULL) == cudaSuccess)
		fail("a texture on nothing", 0, 0, 0, cudaErrorInvalidValue);
	cudaGetLastError();
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	do {
		try_floats();
		try_format<unsigned char, unsigned char>(cudaReadModeElementType, 1);
		try_format<unsigned char, float>(cudaReadModeNormalizedFloat, 1.0 / 255);
		try_format<signed char, signed char>(cudaReadModeElementType, 1);
		try_format<signed char, float>(cudaReadModeNormalizedFloat, 1.0 / 127);
		try_format<unsigned short, float>(cudaReadModeNormalizedFloat, 1.0 / 65535);
		try_format<short, float>(cudaReadModeNormalizedFloat, 1.0 / 32767);
		try_format<int, int>(cudaReadModeElementType, 1);
		try_format<unsigned, unsigned>(cudaReadModeElementType, 1);
		try_channels();
		try_gather();
		try_questions();
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
