/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: compute modes, and which processes may have a context in each. */

#include "softgpu_child.h"

static char dir[64];
static char dir_setting[128], file_setting[128];
static char file_path[96];

static int folder_make(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/softgpu-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(dir_setting, sizeof(dir_setting), "SOFTGPU_DIR=%s", dir);
	snprintf(file_path, sizeof(file_path), "%s/mode", dir);
	snprintf(file_setting, sizeof(file_setting), "SOFTGPU_COMPUTE_MODE_FILE=%s", file_path);
	return 0;
}

static int folder_remove(void **state)
{
	char path[96];

	(void)state;
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/softgpu-%d.lock", dir, i);
		unlink(path);
	}
	unlink(file_path);
	return rmdir(dir);
}

static void file_write(const char *text)
{
	FILE *file = fopen(file_path, "w");

	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int mode_of(CUdevice device)
{
	int mode;

	OK(CU(cuDeviceGetAttribute)(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device));
	return mode;
}

static CUresult retain(CUdevice device)
{
	CUcontext context;

	return CU(cuDevicePrimaryCtxRetain)(&context, device);
}

static void list_child(void)
{
	OK(CU(cuInit)(0));
	CHECK(mode_of(0) == CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
	CHECK(mode_of(1) == CU_COMPUTEMODE_DEFAULT);
	CHECK(mode_of(2) == CU_COMPUTEMODE_PROHIBITED);
	CHECK(mode_of(3) == CU_COMPUTEMODE_PROHIBITED);
	OK(retain(0));
	OK(retain(1));
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, retain(2));
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, retain(3));
}

static void list(void **state)
{
	(void)state;
	in_child(list_child, "SOFTGPU_DEVICES=4", "SOFTGPU_COMPUTE_MODE=3,0,2", dir_setting,
		(char *)NULL);
}

static void file_child(void)
{
	CUcontext made;

	OK(CU(cuInit)(0));
	CHECK(mode_of(0) == CU_COMPUTEMODE_PROHIBITED);
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, retain(0));
	file_write("0,2\n");
	CHECK(mode_of(0) == CU_COMPUTEMODE_DEFAULT);
	CHECK(mode_of(1) == CU_COMPUTEMODE_PROHIBITED);
	OK(retain(0));
	file_write("2\n");
	CHECK(mode_of(0) == CU_COMPUTEMODE_PROHIBITED);
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, CU(cuCtxCreate)(&made, NULL, 0, 0));
	OK(CU(cuDevicePrimaryCtxRelease)(0));
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, retain(0));
	unlink(file_path);
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, retain(0));
}

static void file(void **state)
{
	(void)state;
	in_child(file_child, "SOFTGPU_DEVICES=2", "SOFTGPU_COMPUTE_MODE=prohibited", dir_setting,
		file_setting, (char *)NULL);
}

/* Another process with a context on device 0, which lives until it is killed. */
static pid_t other_process(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		context_open();
		kill(getpid(), SIGSTOP);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	return pid;
}

static void process_end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);
}

/* Processes from before the change of mode count too; dead processes do not. */
static void becomes_exclusive_child(void)
{
	pid_t first = other_process(), second = other_process();

	OK(CU(cuInit)(0));
	OK(retain(0));
	OK(CU(cuDevicePrimaryCtxRelease)(0));
	file_write("exclusive");
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, retain(0));
	process_end(first);
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, retain(0));
	process_end(second);
	OK(retain(0));
	/* It has the device, and may create more contexts there. */
	OK(retain(0));
}

static void becomes_exclusive(void **state)
{
	(void)state;
	in_child(becomes_exclusive_child, dir_setting, file_setting, (char *)NULL);
}

static void no_lock_child(void)
{
	OK(CU(cuInit)(0));
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, retain(0));
}

static void no_lock(void **state)
{
	(void)state;
	in_child(no_lock_child, "SOFTGPU_COMPUTE_MODE=3", "SOFTGPU_DIR=/nonexistent", (char *)NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(list, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(file, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(becomes_exclusive, folder_make, folder_remove),
		cmocka_unit_test(no_lock),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
