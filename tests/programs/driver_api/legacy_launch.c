/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches in the way of CUDA 3: shape, shared memory and parameters of a function are
 * set one by one, and kept from launch to launch.
 * Builds with: -Wno-deprecated-declarations
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "legacy_launch"
#define CHECK(call) expect((call), CUDA_SUCCESS, #call, __LINE__)
#define EXPECT(result, call) expect((call), (result), #call, __LINE__)

enum {
	X = 32,
	Y = 4,
	GRID_X = 5,
	GRID_Y = 3,
	N = X * Y * GRID_X * GRID_Y
};

/* out[i] = scale * i + a * b for i < n; a goes through shared memory. */
static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".extern .shared .align 4 .b32 scratch[];\n"
			    ".visible .entry fill(.param .u64 out, .param .f32 scale,\n"
			    "	.param .align 4 .b8 pair[8], .param .u32 n)\n"
			    "{\n"
			    "	.reg .pred %p<2>;\n"
			    "	.reg .b32 %r<20>;\n"
			    "	.reg .f32 %f<4>;\n"
			    "	.reg .b64 %rd<6>;\n"
			    "	mov.u32 %r1, %ctaid.y;\n"
			    "	mov.u32 %r2, %nctaid.x;\n"
			    "	mov.u32 %r3, %ctaid.x;\n"
			    "	mad.lo.u32 %r4, %r1, %r2, %r3;\n"
			    "	mov.u32 %r5, %ntid.y;\n"
			    "	mov.u32 %r6, %tid.y;\n"
			    "	mad.lo.u32 %r7, %r4, %r5, %r6;\n"
			    "	mov.u32 %r8, %ntid.x;\n"
			    "	mov.u32 %r9, %tid.x;\n"
			    "	mad.lo.u32 %r10, %r7, %r8, %r9;\n"
			    "	mad.lo.u32 %r11, %r6, %r8, %r9;\n"
			    "	mov.u32 %r12, scratch;\n"
			    "	shl.b32 %r13, %r11, 2;\n"
			    "	add.u32 %r13, %r12, %r13;\n"
			    "	ld.param.u32 %r14, [pair];\n"
			    "	st.shared.u32 [%r13], %r14;\n"
			    "	bar.sync 0;\n"
			    "	ld.param.u32 %r15, [n];\n"
			    "	setp.ge.u32 %p1, %r10, %r15;\n"
			    "	@%p1 bra END;\n"
			    "	ld.shared.u32 %r16, [%r12];\n"
			    "	ld.param.u32 %r17, [pair+4];\n"
			    "	mul.lo.u32 %r18, %r16, %r17;\n"
			    "	ld.param.f32 %f1, [scale];\n"
			    "	cvt.rn.f32.u32 %f2, %r10;\n"
			    "	mul.f32 %f3, %f1, %f2;\n"
			    "	cvt.rzi.s32.f32 %r19, %f3;\n"
			    "	add.u32 %r18, %r18, %r19;\n"
			    "	ld.param.u64 %rd1, [out];\n"
			    "	cvta.to.global.u64 %rd2, %rd1;\n"
			    "	mul.wide.u32 %rd3, %r10, 4;\n"
			    "	add.u64 %rd4, %rd2, %rd3;\n"
			    "	st.global.u32 [%rd4], %r18;\n"
			    "END:\n"
			    "	ret;\n"
			    "}\n"
			    ".visible .entry nothing()\n"
			    "{\n"
			    "	ret;\n"
			    "}\n";

static CUdeviceptr out;

static void expect(CUresult result, CUresult wanted, const char *what, int line)
{
	if (result == wanted)
		return;
	printf(NAME ": line %d: %s: %d, not %d\n", line, what, result, wanted);
	exit(1);
}

static void set(CUfunction function, float scale, int n)
{
	int pair[2] = {7, 9};

	CHECK(cuFuncSetBlockShape(function, X, Y, 1));
	CHECK(cuFuncSetSharedSize(function, sizeof(int) * X * Y));
	CHECK(cuParamSetv(function, 0, &out, sizeof(out)));
	CHECK(cuParamSetf(function, 8, scale));
	CHECK(cuParamSetv(function, 12, pair, sizeof(pair)));
	CHECK(cuParamSeti(function, 20, (unsigned)n));
	CHECK(cuParamSetSize(function, 24));
}

static void compare(float scale, int n)
{
	static int host[N];

	CHECK(cuMemcpyDtoH(host, out, sizeof(host)));
	for (int i = 0; i < N; i++)
		if (host[i] != (i < n ? (int)(scale * (float)i) + 63 : 0)) {
			printf(NAME ": element %d is %d\n", i, host[i]);
			exit(1);
		}
	CHECK(cuMemsetD32(out, 0, N));
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;
	CUmodule module = NULL;
	CUfunction function = NULL, nothing = NULL;
	CUstream stream = NULL;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&function, module, "fill"));
	CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
	CHECK(cuMemAlloc(&out, N * sizeof(int)));
	CHECK(cuMemsetD32(out, 0, N));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

	set(function, 2.5f, N);
	CHECK(cuLaunchGrid(function, GRID_X, GRID_Y));
	compare(2.5f, N);
	CHECK(cuCtxSynchronize());
	CHECK(cuParamSetf(function, 8, 3.0f));
	CHECK(cuLaunchGridAsync(function, GRID_X, GRID_Y, stream));
	CHECK(cuStreamSynchronize(stream));
	compare(3.0f, N);
	CHECK(cuLaunch(function));
	compare(3.0f, X * Y);

	CHECK(cuLaunch(nothing)); /* a function without any settings */
	CHECK(cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape(function, 0, 1, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape(function, 4096, 1, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetSharedSize(function, 1u << 30));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(function, 0, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(function, -1, 1));
	CHECK(cuStreamDestroy(stream));
	CHECK(cuMemFree(out));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
