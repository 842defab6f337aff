/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The private table with the places of SMs, by which cuBLASLt orders the parts of a matrix
 * product. It needs a current context; the numbers in each GPC are consecutive.
 *
 * show: prints the GPC of each two SMs.
 */

#include <string.h>

#define NAME "topology"
#include "../helpers/driver_program.h"

enum {
	READ = 4,
	FREE = 13,
	GPCS_MAX = 256,
};

static const CUuuid id = {"\x17\x34\xdc\x26\x80\x0d\x47\x45\x87\x26\xc0\xf1\xe7\xdd\x8b\xca"};
static void *const *table;

static CUresult read_places(unsigned char **gpcs, unsigned char **numbers)
{
	return ((CUresult(*)(unsigned char **, unsigned char **))table[READ])(gpcs, numbers);
}

static void free_places(unsigned char *gpcs, unsigned char *numbers)
{
	((void (*)(unsigned char *, unsigned char *))table[FREE])(gpcs, numbers);
}

static void look(int n_sms, int is_shown)
{
	int sizes[GPCS_MAX] = {0};
	unsigned char *gpcs, *numbers;

	CHECK(read_places(&gpcs, &numbers));
	for (int i = 0; i < n_sms / 2; i++) {
		if (is_shown)
			printf("%d ", gpcs[i]);
		MUST(numbers[i] == sizes[gpcs[i]]);
		sizes[gpcs[i]]++;
	}
	if (is_shown)
		printf("\n");
	free_places(gpcs, numbers);
}

int main(int argc, char **argv)
{
	unsigned char *gpcs, *numbers;
	CUcontext context;
	CUdevice device;
	int n_sms;

	CHECK(cuGetExportTable((const void **)&table, &id));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, read_places(&gpcs, &numbers));
	CHECK(cuInit(0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, read_places(&gpcs, &numbers));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDeviceGetAttribute(&n_sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	look(n_sms, argc > 1 && !strcmp(argv[1], "show"));
	look(n_sms, 0);
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
