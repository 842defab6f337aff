/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Descriptors of device memory for other devices (dma-buf): of which memory there are any, and
 * how addresses and sizes have to be aligned. Nothing is done with the descriptors: that takes a
 * device that can.
 *
 *	dma_buf hold: fills memory, prints the number of a descriptor of it, and ends when its
 *	standard input does
 *	dma_buf again: prints whether 40 MiB can be had after 32 MiB were freed, without and with
 *	a descriptor
 */

#define NAME "dma_buf"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../helpers/driver_program.h"

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define FD CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
#define PCIE CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
#define REFUSE(call) EXPECT(CUDA_ERROR_INVALID_VALUE, call)

static const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

static CUresult get(CUdeviceptr address, size_t size, int *ret_fd)
{
	*ret_fd = -1;
	return cuMemGetHandleForAddressRange(ret_fd, address, size, FD, 0);
}

static void has_one(CUdeviceptr address, size_t size)
{
	int fd;

	CHECK(get(address, size, &fd));
	MUST(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	MUST(close(fd) == 0);
}

static void has_none(CUdeviceptr address, size_t size)
{
	int fd;

	REFUSE(get(address, size, &fd));
	MUST(fd == -1);
}

static void arguments(void)
{
	CUdeviceptr memory, small;
	int fd;

	CHECK(cuMemAlloc(&memory, 8 * MIB));
	has_one(memory, 8 * MIB);
	has_one(memory, PAGE);
	has_one(memory + PAGE, 2 * PAGE);
	has_none(memory + 512, PAGE);
	has_none(memory, 100);
	has_none(memory, 0);
	has_none(memory, 16 * MIB);
	has_none(0, PAGE);
	REFUSE(cuMemGetHandleForAddressRange(NULL, memory, PAGE, FD, 0));
	REFUSE(cuMemGetHandleForAddressRange(&fd, memory, PAGE, 0, 0));
	REFUSE(cuMemGetHandleForAddressRange(&fd, memory, PAGE, 2, 0));
	/* The page of a small allocation. */
	CHECK(cuMemAlloc(&small, 512));
	has_one(small & ~(PAGE - 1), PAGE);
	CHECK(cuMemFree(small));
	CHECK(cuMemFree(memory));
	has_none(memory, PAGE);
}

/* Only machines whose GPU has another way to the processor than PCIe know this flag. */
static void flag(void)
{
	CUdeviceptr memory;
	int fd;

	CHECK(cuMemAlloc(&memory, 2 * MIB));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
		cuMemGetHandleForAddressRange(&fd, memory, PAGE, FD, PCIE));
	CHECK(cuMemFree(memory));
}

static void pooled(void)
{
	CUdeviceptr memory;

	CHECK(cuMemAllocAsync(&memory, MIB, NULL));
	has_one(memory, PAGE);
	CHECK(cuMemFreeAsync(memory, NULL));
}

static void of_the_host(void)
{
	CUdeviceptr memory;
	void *pinned;

	CHECK(cuMemHostAlloc(&pinned, MIB, 0));
	has_none((CUdeviceptr)pinned, PAGE);
	CHECK(cuMemFreeHost(pinned));
	CHECK(cuMemAllocManaged(&memory, MIB, CU_MEM_ATTACH_GLOBAL));
	has_none(memory, PAGE);
	CHECK(cuMemFree(memory));
}

/* Two allocations that are mapped next to each other are one range. */
static void mapped(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device};
	CUmemAccessDesc access = {device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle first, second;
	CUdeviceptr space;

	CHECK(cuMemCreate(&first, 4 * MIB, &prop, 0));
	CHECK(cuMemCreate(&second, 2 * MIB, &prop, 0));
	CHECK(cuMemAddressReserve(&space, 8 * MIB, 0, 0, 0));
	CHECK(cuMemMap(space, 4 * MIB, 0, first, 0));
	CHECK(cuMemSetAccess(space, 4 * MIB, &access, 1));
	has_one(space, 4 * MIB);
	has_one(space + MIB, PAGE);
	has_none(space + 2 * MIB, 4 * MIB);
	has_none(space + 4 * MIB, PAGE);
	CHECK(cuMemMap(space + 4 * MIB, 2 * MIB, 0, second, 0));
	CHECK(cuMemSetAccess(space + 4 * MIB, 2 * MIB, &access, 1));
	has_one(space, 6 * MIB);
	CHECK(cuMemUnmap(space, 6 * MIB));
	has_none(space, PAGE);
	CHECK(cuMemRelease(first));
	CHECK(cuMemRelease(second));
	CHECK(cuMemAddressFree(space, 8 * MIB));
}

static void rdma_capable(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device};
	CUmemAccessDesc access = {device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr space;
	unsigned is_capable;

	CHECK(cuMemAddressReserve(&space, 2 * MIB, 0, 0, 0));
	for (unsigned wanted = 0; wanted < 2; wanted++) {
		prop.allocFlags.gpuDirectRDMACapable = (unsigned char)wanted;
		CHECK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
		CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
		MUST(prop.allocFlags.gpuDirectRDMACapable == wanted);
		CHECK(cuMemMap(space, 2 * MIB, 0, handle, 0));
		CHECK(cuMemSetAccess(space, 2 * MIB, &access, 1));
		CHECK(cuPointerGetAttribute(
			&is_capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, space));
		MUST(is_capable == wanted);
		has_one(space, 2 * MIB);
		CHECK(cuMemUnmap(space, 2 * MIB));
		CHECK(cuMemRelease(handle));
	}
	CHECK(cuMemAddressFree(space, 2 * MIB));
}

static int has_attribute(CUdevice_attribute attribute)
{
	int value;

	CHECK(cuDeviceGetAttribute(&value, attribute, 0));
	return value;
}

static void hold(void)
{
	CUdeviceptr memory;
	int fd;

	CHECK(cuMemAlloc(&memory, 4 * MIB));
	CHECK(cuMemsetD32(memory, 0x12345678, MIB));
	CHECK(cuCtxSynchronize());
	CHECK(get(memory, 4 * MIB, &fd));
	printf("%d\n", fd);
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static CUresult again(int has_fd)
{
	CUdeviceptr memory;
	CUresult result;

	CHECK(cuMemAlloc(&memory, 32 * MIB));
	if (has_fd)
		has_one(memory, 32 * MIB);
	CHECK(cuMemFree(memory));
	result = cuMemAlloc(&memory, 40 * MIB);
	if (result == CUDA_SUCCESS)
		CHECK(cuMemFree(memory));
	return result;
}

int main(int argc, char **argv)
{
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	if (argc > 1 && strcmp(argv[1], "hold") == 0) {
		hold();
	} else if (argc > 1) {
		printf("%d ", again(0));
		printf("%d\n", again(1));
	} else if (has_attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)) {
		arguments();
		flag();
		pooled();
		of_the_host();
		mapped();
		if (has_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
			rdma_capable();
	}
	printf(NAME ": ok\n");
	return 0;
}
