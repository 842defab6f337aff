/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: its fault records in the format of the kernel's log. */

#include "softgpu_child.h"

#define FAULTY ((CUdeviceptr)0x214123456f04)
#define RECORD                                                                                     \
	"6,%lu,%lu,-;NVRM: Xid (PCI:0000:%x:00): 31, pid=%d, name=%31[^,], channel 0x%x, intr "    \
	"00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x%x_%8x. "                 \
	"Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_%15s"

static char path[64], setting[128];

static int path_make(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/softgpu-log-XXXXXX");
	snprintf(setting, sizeof(setting), "SOFTGPU_KERNEL_LOG=%s", path);
	fd = mkstemp(path);
	snprintf(setting, sizeof(setting), "SOFTGPU_KERNEL_LOG=%s", path);
	return fd < 0 ? -1 : close(fd);
}

static int path_remove(void **state)
{
	(void)state;
	return unlink(path);
}

/* Runs `name' with that address on device 1. */
static CUresult fault_by(const char *name, CUdeviceptr address)
{
	void *params[] = {&address};
	CUcontext context;

	OK(CU(cuInit)(0));
	OK(CU(cuDevicePrimaryCtxRetain)(&context, 1));
	OK(CU(cuCtxSetCurrent)(context));
	OK(launch(kernel_get(library_load(), name), 1, 1, NULL, params));
	return CU(cuCtxSynchronize)();
}

static void write_child(void)
{
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, fault_by("poke", FAULTY));
}

static void read_child(void)
{
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, fault_by("spin", 16));
}

/* This fault is not about a missing page. */
static void misaligned_child(void)
{
	EXPECT(CUDA_ERROR_MISALIGNED_ADDRESS, fault_by("poke", FAULTY + 1));
}

struct record {
	unsigned long seq, time;
	unsigned bus, channel, high, low;
	int pid;
	char name[32], access[16];
};

static void record_parse(FILE *file, struct record *ret)
{
	char line[512];

	assert_non_null(fgets(line, sizeof(line), file));
	assert_int_equal(line[strlen(line) - 1], '\n');
	assert_int_equal(sscanf(line, RECORD, &ret->seq, &ret->time, &ret->bus, &ret->pid,
				 ret->name, &ret->channel, &ret->high, &ret->low, ret->access),
		9);
}

/* One record for each illegal address, after the existing ones. */
static void records(void **state)
{
	_cleanup_fclose_ FILE *file = fopen(path, "r");
	struct record write, read;

	(void)state;
	assert_non_null(file);
	in_child(write_child, "SOFTGPU_DEVICES=2", setting, (char *)NULL);
	in_child(misaligned_child, "SOFTGPU_DEVICES=2", setting, (char *)NULL);
	in_child(read_child, "SOFTGPU_DEVICES=2", setting, (char *)NULL);
	record_parse(file, &write);
	record_parse(file, &read);
	assert_int_equal(fgetc(file), EOF);
	assert_int_equal(write.high, 0x2141);
	assert_int_equal(write.low, 0x23456000);
	assert_string_equal(write.access, "WRITE");
	assert_int_equal(write.bus, 2);
	assert_string_equal(write.name, "test_softgpu_lo"); /* cut by the kernel */
	assert_int_equal(read.high, 0);
	assert_int_equal(read.low, 0);
	assert_string_equal(read.access, "READ");
	assert_int_not_equal(read.pid, write.pid);
	assert_true(read.seq > write.seq && read.time >= write.time);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records, path_make, path_remove),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
