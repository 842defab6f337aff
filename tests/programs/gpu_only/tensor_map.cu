/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tensor maps: blocks of threads load tiles of a matrix with one instruction and store them
 * with another, also past its edges, where loads give zeros and stores have no effect; a map
 * moved to another address; what the driver refuses.
 *
 * Runs: on a GPU
 * Builds with: -arch=sm_90
 */

#define NAME "tensor_map"

#include <cuda.h>

#include "../helpers/program.h"

#define WIDTH 100 /* of the matrix; rows are PITCH elements apart */
#define HEIGHT 50
#define PITCH 112
#define TILE_WIDTH 32
#define TILE_HEIGHT 8
#define TILES_X ((WIDTH + TILE_WIDTH - 1) / TILE_WIDTH)
#define TILES_Y ((HEIGHT + TILE_HEIGHT - 1) / TILE_HEIGHT)

typedef CUresult encode_tiled_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
	const cuuint64_t *, const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
	CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
typedef CUresult replace_address_fn(CUtensorMap *, void *);

static encode_tiled_fn *encode_tiled;
static replace_address_fn *replace_address;

static void fail(const char *what, long i, long got, long wanted)
{
	printf(NAME ": %s, element %ld: %ld instead of %ld\n", what, i, got, wanted);
	exit(1);
}

static __device__ unsigned shared_address(const void *p)
{
	return (unsigned)__cvta_generic_to_shared(p);
}

/* Adds one to each element of a tile, between load and store. */
static __global__ void add_one(
	const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to)
{
	__shared__ alignas(128) int tile[TILE_HEIGHT * TILE_WIDTH];
	__shared__ alignas(8) unsigned long long arrived;
	int x = (int)blockIdx.x * TILE_WIDTH, y = (int)blockIdx.y * TILE_HEIGHT;
	unsigned is_there = 0;

	if (threadIdx.x == 0) {
		asm volatile(
			"mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived))
			: "memory");
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
				     shared_address(&arrived)),
			     "n"(sizeof(tile))
			     : "memory");
		asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx"
			     "::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(tile)),
			     "l"(&from), "r"(x), "r"(y), "r"(shared_address(&arrived))
			     : "memory");
	}
	__syncthreads();
	while (!is_there)
		asm volatile("{\n"
			     ".reg .pred done;\n"
			     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], 0;\n"
			     "selp.u32 %0, 1, 0, done;\n"
			     "}"
			     : "=r"(is_there)
			     : "r"(shared_address(&arrived))
			     : "memory");
	for (int i = (int)threadIdx.x; i < TILE_HEIGHT * TILE_WIDTH; i += (int)blockDim.x)
		tile[i]++;
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	__syncthreads();
	if (threadIdx.x == 0) {
		asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
			     "[%0, {%1, %2}], [%3];" ::"l"(&to),
			     "r"(x), "r"(y), "r"(shared_address(tile))
			     : "memory");
		asm volatile("cp.async.bulk.commit_group;" ::: "memory");
		asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
	}
}

static CUresult encode(CUtensorMap *map, void *address, cuuint32_t rank)
{
	const cuuint64_t dims[2] = {WIDTH, HEIGHT}, strides[1] = {PITCH * sizeof(int)};
	const cuuint32_t box[2] = {TILE_WIDTH, TILE_HEIGHT}, steps[2] = {1, 1};

	return encode_tiled(map, CU_TENSOR_MAP_DATA_TYPE_INT32, rank, address, dims, strides, box,
		steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
		CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void expect(CUresult result, CUresult wanted, const char *what)
{
	if (result != wanted)
		fail(what, 0, result, wanted);
}

static void find(const char *name, unsigned version, void **function)
{
	cudaDriverEntryPointQueryResult found;

	CHECK(cudaGetDriverEntryPointByVersion(name, function, version, cudaEnableDefault, &found));
	if (found != cudaDriverEntryPointSuccess || !*function)
		fail(name, 0, found, cudaDriverEntryPointSuccess);
}

/* Elements between rows, and past the last row, stay -1. */
static void check(const char *what, const int *device, int added)
{
	static int out[HEIGHT][PITCH];

	CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < PITCH; x++) {
			int wanted = x < WIDTH ? y * 1000 + x + added : -1;

			if (out[y][x] != wanted)
				fail(what, y * PITCH + x, out[y][x], wanted);
		}
}

static void round_trip(void)
{
	static int in[HEIGHT][PITCH];
	CUtensorMap from, to;
	int *matrices[3];

	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < PITCH; x++)
			in[y][x] = y * 1000 + x;
	for (int i = 0; i < 3; i++) {
		CHECK(cudaMalloc(&matrices[i], sizeof(in)));
		CHECK(cudaMemset(matrices[i], 0xff, sizeof(in)));
	}
	CHECK(cudaMemcpy(matrices[0], in, sizeof(in), cudaMemcpyHostToDevice));
	expect(encode(&from, matrices[0], 2), CUDA_SUCCESS, "a map");
	expect(encode(&to, matrices[1], 2), CUDA_SUCCESS, "a second map");
	add_one<<<dim3(TILES_X, TILES_Y), 64>>>(from, to);
	CHECK(cudaDeviceSynchronize());
	check("tiles", matrices[1], 1);

	expect(replace_address(&from, matrices[1]), CUDA_SUCCESS, "a map that moves");
	expect(replace_address(&to, matrices[2]), CUDA_SUCCESS, "a second map that moves");
	add_one<<<dim3(TILES_X, TILES_Y), 64>>>(from, to);
	CHECK(cudaDeviceSynchronize());
	check("tiles of a map that moved", matrices[2], 2);

	expect(encode(NULL, matrices[0], 2), CUDA_ERROR_INVALID_VALUE, "no map");
	expect(encode(&from, matrices[0], 0), CUDA_ERROR_INVALID_VALUE, "no dimensions");
	expect(encode(&from, matrices[0], 6), CUDA_ERROR_INVALID_VALUE, "six dimensions");
	expect(encode(&from, (char *)matrices[0] + 4, 2), CUDA_ERROR_INVALID_VALUE,
		"an address out of line");
	for (int i = 0; i < 3; i++)
		CHECK(cudaFree(matrices[i]));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	CHECK(cudaFree(NULL));
	find("cuTensorMapEncodeTiled", 12000, (void **)&encode_tiled);
	find("cuTensorMapReplaceAddress", 12000, (void **)&replace_address);
	do
		round_trip();
	while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
