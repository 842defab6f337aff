/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Linking at run time: two PTX texts, one of which calls the other and reads its table,
 * from memory and from a file; the result is loaded, and linked again. Logs report
 * conflicts; wrong arguments get their errors.
 */

#include <string.h>
#include <unistd.h>

#define NAME "link"
#include "../helpers/driver_program.h"

#define HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"

static const char caller[] = HEAD ".extern .func (.param .b32 ret) outside (.param .b32 x);\n"
				  ".extern .global .align 4 .u32 table[4];\n"
				  ".func (.param .b32 ret) inside (.param .b32 x)\n"
				  "{\n"
				  "	.reg .b32 %r<3>;\n"
				  "	ld.param.u32 %r1, [x];\n"
				  "	add.u32 %r2, %r1, 100;\n"
				  "	st.param.b32 [ret], %r2;\n"
				  "	ret;\n"
				  "}\n"
				  ".visible .entry run (.param .u64 out)\n"
				  "{\n"
				  "	.reg .b32 %r<6>;\n"
				  "	.reg .b64 %rd<7>;\n"
				  "	ld.param.u64 %rd1, [out];\n"
				  "	cvta.to.global.u64 %rd2, %rd1;\n"
				  "	mov.u32 %r1, %tid.x;\n"
				  "	{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b;\n"
				  "	call.uni (b), outside, (a); ld.param.b32 %r2, [b]; }\n"
				  "	{ .param .b32 a; st.param.b32 [a], %r2; .param .b32 b;\n"
				  "	call.uni (b), inside, (a); ld.param.b32 %r3, [b]; }\n"
				  "	and.b32 %r4, %r1, 3;\n"
				  "	mul.wide.u32 %rd3, %r4, 4;\n"
				  "	mov.u64 %rd4, table;\n"
				  "	add.u64 %rd5, %rd4, %rd3;\n"
				  "	ld.global.u32 %r4, [%rd5];\n"
				  "	add.u32 %r5, %r3, %r4;\n"
				  "	mul.wide.u32 %rd3, %r1, 4;\n"
				  "	add.u64 %rd6, %rd2, %rd3;\n"
				  "	st.global.u32 [%rd6], %r5;\n"
				  "	ret;\n"
				  "}\n";

/* Its `inside' is a different function. */
static const char called[] =
	HEAD ".visible .global .align 4 .u32 table[4] = {1000, 2000, 3000, 4000};\n"
	     ".func (.param .b32 ret) inside (.param .b32 x)\n"
	     "{\n"
	     "	.reg .b32 %r<3>;\n"
	     "	ld.param.u32 %r1, [x];\n"
	     "	mul.lo.u32 %r2, %r1, 7;\n"
	     "	st.param.b32 [ret], %r2;\n"
	     "	ret;\n"
	     "}\n"
	     ".visible .func (.param .b32 ret) outside (.param .b32 x)\n"
	     "{\n"
	     "	.reg .b32 %r<3>;\n"
	     "	ld.param.u32 %r1, [x];\n"
	     "	{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b;\n"
	     "	call.uni (b), inside, (a); ld.param.b32 %r2, [b]; }\n"
	     "	st.param.b32 [ret], %r2;\n"
	     "	ret;\n"
	     "}\n";

enum {
	THREADS = 32,
	LOG = 2048
};

static void run_image(const void *image, const char *how)
{
	unsigned host[THREADS];
	CUdeviceptr out = 0, table = 0;
	CUfunction function = NULL;
	CUmodule module = NULL;
	void *params[] = {&out};
	size_t size = 0;

	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&function, module, "run"));
	CHECK(cuModuleGetGlobal(&table, &size, module, "table"));
	MUST(size == 4 * sizeof(unsigned));
	CHECK(cuMemAlloc(&out, sizeof(host)));
	CHECK(cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(host, out, sizeof(host)));
	for (unsigned i = 0; i < THREADS; i++) {
		unsigned want = i * 7 + 100 + (i % 4 + 1) * 1000;

		if (host[i] == want)
			continue;
		printf(NAME ": %s: thread %u has %u, not %u\n", how, i, host[i], want);
		exit(1);
	}
	CHECK(cuMemFree(out));
	CHECK(cuModuleUnload(module));
}

static void add_text(CUlinkState state, const char *text, const char *name)
{
	CHECK(cuLinkAddData(
		state, CU_JIT_INPUT_PTX, (void *)text, strlen(text) + 1, name, 0, NULL, NULL));
}

static void try_memory(void)
{
	char error[LOG] = "?", info[LOG] = "?";
	float wall_time = -1;
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
		CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE,
		CU_JIT_WALL_TIME};
	void *values[] = {error, (void *)LOG, info, (void *)LOG, (void *)1, NULL};
	CUlinkState state = NULL;
	void *image = NULL, *copy = NULL;
	size_t size = 0;

	CHECK(cuLinkCreate(6, options, values, &state));
	add_text(state, caller, "caller");
	add_text(state, called, "called");
	CHECK(cuLinkComplete(state, &image, &size));
	MUST(image && size > 64 && memcmp(image, "\177ELF", 4) == 0);
	MUST(error[0] == 0);
	memcpy(&wall_time, &values[5], sizeof(wall_time));
	MUST(wall_time >= 0);
	run_image(image, "from memory");
	/* The linker owns it and frees it. */
	copy = malloc(size);
	memcpy(copy, image, size);
	CHECK(cuLinkDestroy(state));
	run_image(copy, "from a copy");
	free(copy);
}

/* One text from a file. */
static void try_file(void)
{
	char path[] = "/tmp/mps-link-XXXXXX";
	CUlinkState state = NULL;
	void *image = NULL;
	int fd = mkstemp(path);

	MUST(fd >= 0 && write(fd, called, sizeof(called)) == sizeof(called));
	close(fd);
	CHECK(cuLinkCreate(0, NULL, NULL, &state));
	EXPECT(CUDA_ERROR_FILE_NOT_FOUND,
		cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere/at all", 0, NULL, NULL));
	CHECK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
	unlink(path);
	add_text(state, caller, NULL);
	CHECK(cuLinkComplete(state, &image, NULL));
	run_image(image, "from a file");
	CHECK(cuLinkDestroy(state));
}

static void try_errors(void)
{
	char error[LOG] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {error, (void *)LOG};
	static const char broken[] = HEAD ".visible .entry k () { frobnicate; }\n";
	CUlinkState state = NULL;
	void *image = NULL;
	size_t size = 0;

	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLinkCreate(0, NULL, NULL, NULL));
	CHECK(cuLinkCreate(2, options, values, &state));
	/* A symbol that it needs is missing. */
	add_text(state, caller, "caller");
	MUST(cuLinkComplete(state, &image, &size) != CUDA_SUCCESS);
	MUST(strstr(error, "outside") || strstr(error, "table"));
	CHECK(cuLinkDestroy(state));

	values[1] = (void *)LOG;
	CHECK(cuLinkCreate(2, options, values, &state));
	MUST(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)broken, sizeof(broken), "broken", 0,
		     NULL, NULL) != CUDA_SUCCESS ||
		cuLinkComplete(state, &image, &size) != CUDA_SUCCESS);
	MUST(strstr(error, "frobnicate") != NULL);
	CHECK(cuLinkDestroy(state));
}

int main(void)
{
	CUcontext context = NULL;
	CUdevice device = 0;
	CUlinkState state = NULL;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuLinkCreate(0, NULL, NULL, &state));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	try_memory();
	try_file();
	try_errors();
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
