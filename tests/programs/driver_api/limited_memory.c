/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocates in one way, which its first argument names, until no memory is left, frees all of
 * it, and does both once more. The second argument is the KiB of each piece. It prints how much
 * it got, and the driver's total and free memory.
 *
 *	limited_memory WAY KIB
 *	limited_memory hold KIB: takes a piece, and one more for each line of its standard
 *	input, and keeps them until that ends
 *	limited_memory share KIB: takes a piece, prints its handle for other processes in
 *	hexadecimal digits, and keeps it until its standard input ends
 *	limited_memory WAY KIB HANDLE: has that piece of another process open meanwhile
 *
 * Runs: for a test of its own
 */

#define NAME "limited_memory"
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "../helpers/driver_program.h"

#define PIECES_MAX 1000000
#define KIB ((size_t)1 << 10)
/* Without a limit, that is enough. */
#define MOST ((size_t)4 << 30)
#define MOST_OF_HOST ((size_t)1 << 30)

/* One piece. */
union piece {
	CUdeviceptr address;
	void *host;
	CUmemGenericAllocationHandle handle;
	CUarray array;
	CUmipmappedArray mipmap;
	CUmodule module;
	CUgraph graph;
	int fd;
};

static CUdevice device;
static CUmemoryPool pool;
static union piece pieces[PIECES_MAX];

static CUresult take_plain(union piece *piece, size_t size)
{
	return cuMemAlloc(&piece->address, size);
}

static CUresult give_plain(union piece *piece)
{
	return cuMemFree(piece->address);
}

/* Rows of 512 bytes, as the driver pads them. */
static CUresult take_pitch(union piece *piece, size_t size)
{
	size_t pitch;

	return cuMemAllocPitch(&piece->address, &pitch, 500, size / 512, 4);
}

static CUresult take_async(union piece *piece, size_t size)
{
	return cuMemAllocAsync(&piece->address, size, NULL);
}

static CUresult give_async(union piece *piece)
{
	return cuMemFreeAsync(piece->address, NULL);
}

static CUresult take_from(
	union piece *piece, size_t size, CUmemAllocationType type, CUmemLocationType place)
{
	CUmemPoolProps props = {.allocType = type};

	props.location.type = place;
	props.location.id = place == CU_MEM_LOCATION_TYPE_DEVICE ? device : 0;
	if (!pool)
		CHECK(cuMemPoolCreate(&pool, &props));
	return cuMemAllocFromPoolAsync(&piece->address, size, pool, NULL);
}

static CUresult take_pool(union piece *piece, size_t size)
{
	return take_from(piece, size, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE);
}

static CUresult take_host_pool(union piece *piece, size_t size)
{
	return take_from(piece, size, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST);
}

static CUresult take_managed_pool(union piece *piece, size_t size)
{
	return take_from(piece, size, CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_LOCATION_TYPE_DEVICE);
}

/* The GPU that allocates pays. */
static CUresult take_any_pool(union piece *piece, size_t size)
{
	return take_from(piece, size, CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_LOCATION_TYPE_NONE);
}

static CUresult create(
	CUmemGenericAllocationHandle *handle, size_t size, CUmemAllocationHandleType type)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = type};

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	return cuMemCreate(handle, size, &prop, 0);
}

static CUresult take_create(union piece *piece, size_t size)
{
	return create(&piece->handle, size, CU_MEM_HANDLE_TYPE_NONE);
}

static CUresult give_create(union piece *piece)
{
	return cuMemRelease(piece->handle);
}

/* Only a descriptor keeps the memory. */
static CUresult take_export(union piece *piece, size_t size)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CUmemGenericAllocationHandle handle;
	CUresult result = create(&handle, size, type);

	if (result != CUDA_SUCCESS)
		return result;
	CHECK(cuMemExportToShareableHandle(&piece->fd, handle, type, 0));
	return cuMemRelease(handle);
}

static CUresult give_export(union piece *piece)
{
	return close(piece->fd) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Rows of 4 KiB. */
static CUresult take_array(union piece *piece, size_t size)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 1024,
		.Height = size / (4 * KIB),
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	};

	return cuArrayCreate(&piece->array, &shape);
}

/* Slices of 64 KiB. */
static CUresult take_array_3d(union piece *piece, size_t size)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 64,
		.Height = 64,
		.Depth = size / (64 * KIB),
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 4,
	};

	return cuArray3DCreate(&piece->array, &shape);
}

static CUresult give_array(union piece *piece)
{
	return cuArrayDestroy(piece->array);
}

/* Three quarters of it are in its first level. */
static CUresult take_mipmap(union piece *piece, size_t size)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 1024,
		.Height = size / (4 * KIB) / 4 * 3,
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	};

	return cuMipmappedArrayCreate(&piece->mipmap, &shape, 16);
}

static CUresult give_mipmap(union piece *piece)
{
	return cuMipmappedArrayDestroy(piece->mipmap);
}

/* A graph of one node that allocates. */
static CUresult take_graph(union piece *piece, size_t size)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = size};
	CUgraphNode node;
	CUresult result;

	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.poolProps.location.id = device;
	CHECK(cuGraphCreate(&piece->graph, 0));
	result = cuGraphAddMemAllocNode(&node, piece->graph, NULL, 0, &params);
	if (result != CUDA_SUCCESS)
		CHECK(cuGraphDestroy(piece->graph));
	return result;
}

static CUresult give_graph(union piece *piece)
{
	CHECK(cuGraphDestroy(piece->graph));
	return cuDeviceGraphMemTrim(device);
}

static CUresult take_managed(union piece *piece, size_t size)
{
	return cuMemAllocManaged(&piece->address, size, CU_MEM_ATTACH_GLOBAL);
}

static CUresult take_host(union piece *piece, size_t size)
{
	return cuMemAllocHost(&piece->host, size);
}

static CUresult give_host(union piece *piece)
{
	return cuMemFreeHost(piece->host);
}

/* A module with a kernel and a variable, with a different text each time. */
static void load(union piece *piece, size_t size)
{
	static unsigned n;
	char text[256];

	snprintf(text, sizeof(text),
		".version 7.0\n.target sm_75\n.address_size 64\n"
		".visible .global .align 8 .b8 variable[%zu];\n"
		".visible .entry nothing() { ret; }\n// %u\n",
		size, n++);
	CHECK(cuModuleLoadData(&piece->module, text));
}

/* A query makes the variable present, */
static CUresult take_variable(union piece *piece, size_t size)
{
	CUdeviceptr address;
	CUresult result;

	load(piece, size);
	result = cuModuleGetGlobal(&address, NULL, piece->module, "variable");
	if (result != CUDA_SUCCESS)
		CHECK(cuModuleUnload(piece->module));
	return result;
}

/* or a launch of the kernel. */
static CUresult take_kernel(union piece *piece, size_t size)
{
	CUfunction function;
	CUresult result;

	load(piece, size);
	result = cuModuleGetFunction(&function, piece->module, "nothing");
	if (result == CUDA_SUCCESS)
		result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	if (result == CUDA_SUCCESS)
		result = cuCtxSynchronize();
	if (result != CUDA_SUCCESS)
		CHECK(cuModuleUnload(piece->module));
	return result;
}

static CUresult give_variable(union piece *piece)
{
	return cuModuleUnload(piece->module);
}

static const struct way {
	const char *name;
	CUresult (*take)(union piece *piece, size_t size);
	CUresult (*give)(union piece *piece);
} ways[] = {
	{"plain", take_plain, give_plain},
	{"pitch", take_pitch, give_plain},
	{"async", take_async, give_async},
	{"pool", take_pool, give_async},
	{"host_pool", take_host_pool, give_async},
	{"managed_pool", take_managed_pool, give_async},
	{"any_pool", take_any_pool, give_async},
	{"create", take_create, give_create},
	{"export", take_export, give_export},
	{"array", take_array, give_array},
	{"array_3d", take_array_3d, give_array},
	{"mipmap", take_mipmap, give_mipmap},
	{"graph", take_graph, give_graph},
	{"managed", take_managed, give_plain},
	{"variable", take_variable, give_variable},
	{"kernel", take_kernel, give_variable},
	{"host", take_host, give_host},
};

static void print_memory(const char *when)
{
	size_t n_free, total, of_device;

	CHECK(cuMemGetInfo(&n_free, &total));
	CHECK(cuDeviceTotalMem(&of_device, device));
	printf("%s: free %zu total %zu device %zu KiB\n", when, n_free / KIB, total / KIB,
		of_device / KIB);
}

static void take_all(const struct way *way, size_t size)
{
	bool is_of_host = way->take == take_host || way->take == take_host_pool;
	size_t most = is_of_host ? MOST_OF_HOST : MOST;
	CUresult result = CUDA_SUCCESS;
	size_t n = 0;

	while (n < PIECES_MAX && n * size < most && result == CUDA_SUCCESS) {
		result = way->take(&pieces[n], size);
		n += result == CUDA_SUCCESS;
	}
	printf("%s: got %zu KiB, then %d\n", way->name, n * size / KIB, result);
	print_memory("full");
	while (n > 0)
		CHECK(way->give(&pieces[--n]));
	CHECK(cuCtxSynchronize());
}

static void hold(size_t size)
{
	CUdeviceptr address;

	do {
		printf("hold: %d\n", cuMemAlloc(&address, size));
		print_memory("hold");
		fflush(stdout);
	} while (getchar() != EOF);
}

static void share(size_t size)
{
	CUdeviceptr address;
	CUipcMemHandle handle;

	CHECK(cuMemAlloc(&address, size));
	CHECK(cuIpcGetMemHandle(&handle, address));
	printf("share: ");
	for (size_t i = 0; i < sizeof(handle); i++)
		printf("%02x", (unsigned char)handle.reserved[i]);
	printf("\n");
	print_memory("share");
	fflush(stdout);
	MUST(getchar() == EOF);
}

static void open_shared(const char *digits)
{
	CUipcMemHandle handle;
	CUdeviceptr address;
	unsigned byte;

	for (size_t i = 0; i < sizeof(handle); i++) {
		MUST(sscanf(digits + 2 * i, "%2x", &byte) == 1);
		handle.reserved[i] = (char)byte;
	}
	CHECK(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(cuMemsetD8(address, 1, KIB));
	print_memory("opened");
}

int main(int argc, char **argv)
{
	size_t size = argc >= 3 ? strtoul(argv[2], NULL, 10) * KIB : 0;
	CUcontext context;

	MUST(size > 0);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	print_memory("at first");
	if (argc == 4)
		open_shared(argv[3]);
	if (strcmp(argv[1], "hold") == 0)
		hold(size);
	if (strcmp(argv[1], "share") == 0)
		share(size);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(argv[1], ways[i].name) != 0)
			continue;
		take_all(&ways[i], size);
		take_all(&ways[i], size);
		print_memory("in the end");
	}
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
