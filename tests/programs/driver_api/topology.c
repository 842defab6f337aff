/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The private table of the places of SMs. It needs a current context; the numbers in each GPC are
 * consecutive.
 *
 * show: prints the GPC of each pair of SMs.
 */

#include <string.h>

#define NAME "topology"
#include "../helpers/driver_program.h"
#include "../helpers/topology.h"

enum {
	GPCS_MAX = 256,
};

static const struct topology_table *table;

static void look(int n_sms, int is_shown)
{
	int sizes[GPCS_MAX] = {0};
	unsigned char *gpcs, *numbers;

	CHECK(table->read(&gpcs, &numbers));
	for (int i = 0; i < n_sms / 2; i++) {
		if (is_shown)
			printf("%d ", gpcs[i]);
		MUST(numbers[i] == sizes[gpcs[i]]);
		sizes[gpcs[i]]++;
	}
	if (is_shown)
		printf("\n");
	table->free(gpcs, numbers);
}

int main(int argc, char **argv)
{
	unsigned char *gpcs, *numbers;
	CUcontext context;
	CUdevice device;
	int n_sms;

	CHECK(topology_table(cuGetExportTable, &table));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, table->read(&gpcs, &numbers));
	CHECK(cuInit(0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, table->read(&gpcs, &numbers));
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
