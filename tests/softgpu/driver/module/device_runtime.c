/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device runtime (libcudadevrt.a), which NVIDIA ships as machine code: the part of
 * it that barriers of a whole grid need, as PTX. A fixed text; runs in any thread.
 */

#include <string.h>

#include "module.h"

#define ARCHIVE_MAGIC "!<arch>\n"

bool device_runtime_is(const void *archive, size_t size)
{
	static const char member[] = "cuda_device_runtime.o";

	return size > strlen(ARCHIVE_MAGIC) &&
	       !memcmp(archive, ARCHIVE_MAGIC, strlen(ARCHIVE_MAGIC)) &&
	       memmem(archive, size, member, strlen(member));
}

/*
 * The handle of the grid is its workspace, which %envreg1 and %envreg2 have. The barrier
 * is that of cooperative_groups.h, as nvcc compiles it.
 */
const char device_runtime_ptx[] =
	".version 9.0\n"
	".target sm_90\n"
	".address_size 64\n"
	".weak .func (.param .b64 func_retval0) cudaCGGetIntrinsicHandle(\n"
	".param .b32 cudaCGGetIntrinsicHandle_param_0\n"
	")\n"
	"{\n"
	".reg .pred %p<2>;\n"
	".reg .b32 %r<4>;\n"
	".reg .b64 %rd<5>;\n"
	"ld.param.u32 %r3, [cudaCGGetIntrinsicHandle_param_0];\n"
	"mov.u32 %r1, %envreg1;\n"
	"mov.u32 %r2, %envreg2;\n"
	"setp.eq.s32 %p1, %r3, 1;\n"
	"cvt.u64.u32 %rd1, %r1;\n"
	"cvt.u64.u32 %rd2, %r2;\n"
	"bfi.b64 %rd3, %rd1, %rd2, 32, 32;\n"
	"selp.b64 %rd4, %rd3, 0, %p1;\n"
	"st.param.b64 [func_retval0+0], %rd4;\n"
	"ret;\n"
	"}\n"
	".weak .func (.param .b32 func_retval0) cudaCGSynchronize(\n"
	".param .b64 cudaCGSynchronize_param_0,\n"
	".param .b32 cudaCGSynchronize_param_1\n"
	")\n"
	"{\n"
	".reg .pred %p<6>;\n"
	".reg .b32 %r<29>;\n"
	".reg .b64 %rd<8>;\n"
	"ld.param.u64 %rd3, [cudaCGSynchronize_param_0];\n"
	"setp.eq.s64 %p1, %rd3, 0;\n"
	"mov.u32 %r28, 999;\n"
	"@%p1 bra $L__BB1_7;\n"
	"mov.u32 %r4, %envreg2;\n"
	"cvt.u64.u32 %rd4, %r4;\n"
	"mov.u32 %r5, %envreg1;\n"
	"cvt.u64.u32 %rd5, %r5;\n"
	"bfi.b64 %rd1, %rd5, %rd4, 32, 32;\n"
	"setp.ne.s64 %p2, %rd1, 0;\n"
	"@%p2 bra $L__BB1_3;\n"
	"trap;\n"
	"$L__BB1_3:\n"
	"barrier.sync 0;\n"
	"mov.u32 %r6, %tid.y;\n"
	"mov.u32 %r7, %tid.x;\n"
	"add.s32 %r8, %r7, %r6;\n"
	"mov.u32 %r9, %tid.z;\n"
	"neg.s32 %r10, %r9;\n"
	"setp.ne.s32 %p3, %r8, %r10;\n"
	"@%p3 bra $L__BB1_6;\n"
	"add.s64 %rd6, %rd1, 4;\n"
	"mov.u32 %r13, %nctaid.x;\n"
	"mov.u32 %r14, %nctaid.y;\n"
	"mul.lo.s32 %r15, %r13, %r14;\n"
	"mov.u32 %r16, %nctaid.z;\n"
	"mul.lo.s32 %r17, %r15, %r16;\n"
	"mov.u32 %r18, %ctaid.y;\n"
	"mov.u32 %r19, %ctaid.x;\n"
	"add.s32 %r20, %r19, %r18;\n"
	"mov.u32 %r21, %ctaid.z;\n"
	"neg.s32 %r22, %r21;\n"
	"setp.eq.s32 %p4, %r20, %r22;\n"
	"mov.u32 %r23, -2147483647;\n"
	"sub.s32 %r24, %r23, %r17;\n"
	"selp.b32 %r12, %r24, 1, %p4;\n"
	"atom.add.release.gpu.u32 %r11,[%rd6],%r12;\n"
	"$L__BB1_5:\n"
	"ld.acquire.gpu.u32 %r25,[%rd6];\n"
	"xor.b32 %r26, %r25, %r11;\n"
	"setp.gt.s32 %p5, %r26, -1;\n"
	"@%p5 bra $L__BB1_5;\n"
	"$L__BB1_6:\n"
	"mov.u32 %r28, 0;\n"
	"barrier.sync 0;\n"
	"$L__BB1_7:\n"
	"st.param.b32 [func_retval0+0], %r28;\n"
	"ret;\n"
	"}\n";
