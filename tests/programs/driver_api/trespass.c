/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a program can reach of another program. `owner FILE' fills memory, prints its
 * address and the handles by which other programs may open it and an event, and checks
 * when FILE exists that the memory is unchanged. `stranger ADDRESS MEMORY EVENT' tries all
 * of them and must fail; `friend' may open the memory and event that have handles.
 * Runs: for a test of its own
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "trespass"
#include "../helpers/driver_program.h"

enum {
	SIZE = 1 << 20,
	FILL = 0x5a,
};

static void begin(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
}

static void print_bytes(const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", (unsigned char)bytes[i]);
}

static void read_bytes(char *bytes, size_t size, const char *text)
{
	for (size_t i = 0; i < size; i++) {
		unsigned value = 0;

		MUST(sscanf(text + 2 * i, "%2x", &value) == 1);
		bytes[i] = (char)value;
	}
}

static void own(const char *file)
{
	static unsigned char bytes[SIZE];
	CUipcEventHandle event_handle;
	CUipcMemHandle handle;
	CUdeviceptr memory;
	CUevent event;

	CHECK(cuMemAlloc(&memory, SIZE));
	CHECK(cuMemsetD8(memory, FILL, SIZE));
	CHECK(cuCtxSynchronize());
	CHECK(cuIpcGetMemHandle(&handle, memory));
	CHECK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	CHECK(cuIpcGetEventHandle(&event_handle, event));
	printf("%llx ", memory);
	print_bytes(handle.reserved, sizeof(handle.reserved));
	printf(" ");
	print_bytes(event_handle.reserved, sizeof(event_handle.reserved));
	printf("\n");
	fflush(stdout);
	while (access(file, F_OK) != 0)
		usleep(1000);
	CHECK(cuMemcpyDtoH(bytes, memory, SIZE));
	for (size_t i = 0; i < SIZE; i++)
		MUST(bytes[i] == FILL);
}

/* Addresses are valid only in their owner's program. */
static void try_address(CUdeviceptr address)
{
	static unsigned char bytes[SIZE];
	CUdeviceptr mine, base;
	CUstream stream;
	size_t size;

	CHECK(cuMemAlloc(&mine, SIZE));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemcpyDtoH(bytes, address, SIZE) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemcpyHtoD(address, bytes, SIZE) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemcpyDtoD(mine, address, SIZE) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemcpyDtoD(address, mine, SIZE) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemsetD8(address, 0, SIZE) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemFree(address) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemGetAddressRange(&base, &size, address) != CUDA_SUCCESS);
	MUST(cuStreamWriteValue32(stream, address, 1, 0) != CUDA_SUCCESS);
	CHECK(cuStreamSynchronize(stream));
}

static void try_handles(const char *memory_text, const char *event_text, int is_friend)
{
	CUipcEventHandle event_handle;
	CUipcMemHandle handle;
	CUdeviceptr memory = 0;
	unsigned char byte = 0;
	CUevent event;

	read_bytes(handle.reserved, sizeof(handle.reserved), memory_text);
	read_bytes(event_handle.reserved, sizeof(event_handle.reserved), event_text);
	if (!is_friend) {
		MUST(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
			CUDA_SUCCESS);
		MUST(cuIpcOpenEventHandle(&event, event_handle) != CUDA_SUCCESS);
		return;
	}
	CHECK(cuIpcOpenEventHandle(&event, event_handle));
	CHECK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(cuMemcpyDtoH(&byte, memory, 1));
	MUST(byte == FILL);
	CHECK(cuIpcCloseMemHandle(memory));
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "owner") == 0) {
		begin();
		own(argv[2]);
	} else if (argc == 5) {
		int is_friend = strcmp(argv[1], "friend") == 0;

		begin();
		try_handles(argv[3], argv[4], is_friend);
		if (!is_friend)
			try_address(strtoull(argv[2], NULL, 16));
	} else {
		return 2;
	}
	printf(NAME ": ok\n");
	return 0;
}
