/* SPDX-License-Identifier: Apache-2.0 */

/*
 * PTX programs of several instructions: branches, calls, memory spaces, threads that
 * converge, and faults.
 */

#include "ptx_harness.h"

/* A kernel with two pointers in %in and %out, and %tid in %t. */
#define KERNEL(body)                                                                               \
	".visible .entry k(.param .u64 k_in, .param .u64 k_out)\n{\n"                              \
	".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .b32 %t;\n"   \
	".reg .f32 %f<8>; .reg .b64 %in; .reg .b64 %out; .reg .b64 %mine;\n"                       \
	"ld.param.u64 %in, [k_in]; ld.param.u64 %out, [k_out];\n"                                  \
	"mov.u32 %t, %tid.x; mul.wide.u32 %mine, %t, 4; add.u64 %mine, %out, %mine;\n" body        \
	"\nret;\n}\n"

#define OUT_OFFSET 16384u

static uint32_t *out;

static void run_kernel(const char *text, uint32_t grid, uint32_t block)
{
	uint64_t params[2] = {device_address(0), device_address(OUT_OFFSET)};
	struct ptx_module *module = load(text);
	struct ptx_fault fault = {0};

	assert_int_equal(run(module, "k", grid, block, params, &fault), 0);
	ptx_module_free(module);
}

static enum ptx_fault_kind run_fault(const char *text, uint32_t block, struct ptx_fault *ret_fault)
{
	uint64_t params[2] = {device_address(0), device_address(OUT_OFFSET)};
	struct ptx_module *module = load(text);

	assert_int_equal(run(module, "k", 1, block, params, ret_fault), -EFAULT);
	ptx_module_free(module);
	return ret_fault->kind;
}

static int reset(_unused_ void **state)
{
	device_reset();
	out = (uint32_t *)(void *)(device.memory + OUT_OFFSET);
	return 0;
}

static void test_loop_apart(_unused_ void **state)
{
	/* Each thread loops as often as its number. */
	run_kernel(PTX_HEAD KERNEL("mov.u32 %r1, 0; mov.u32 %r2, %t;\n"
				   "LOOP: setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE;\n"
				   "add.u32 %r1, %r1, %r2; sub.u32 %r2, %r2, 1; bra LOOP;\n"
				   "DONE: st.global.u32 [%mine], %r1;"),
		1, 100);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(out[i], i * (i + 1) / 2);
}

static void test_jump_table(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL("rem.u32 %r1, %t, 3;\n"
				   "TABLE: .branchtargets A, B, C;\n"
				   "brx.idx %r1, TABLE;\n"
				   "A: mov.u32 %r2, 10; bra END;\n"
				   "B: mov.u32 %r2, 20; bra END;\n"
				   "C: mov.u32 %r2, 30;\n"
				   "END: st.global.u32 [%mine], %r2;"),
		1, 40);
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(out[i], 10 * (i % 3 + 1));
}

static const char fibonacci[] = PTX_HEAD
	".func (.param .b32 r) fib(.param .b32 n);\n"
	".func (.param .b32 r) fib(.param .b32 n)\n{\n"
	".reg .b32 %r<5>; .reg .pred %p;\n"
	"ld.param.u32 %r1, [n]; mov.u32 %r2, %r1; setp.lt.u32 %p, %r1, 2; @%p bra END;\n"
	"{ .param .b32 a; st.param.b32 [a+0], %r3; sub.u32 %r3, %r1, 1; st.param.b32 [a], %r3;\n"
	".param .b32 b; call.uni (b), fib, (a); ld.param.b32 %r2, [b+0]; }\n"
	"{ .param .b32 a; sub.u32 %r3, %r1, 2; st.param.b32 [a], %r3;\n"
	".param .b32 b; call.uni (b), fib, (a); ld.param.b32 %r4, [b]; }\n"
	"add.u32 %r2, %r2, %r4;\n"
	"END: st.param.b32 [r], %r2; ret;\n}\n" KERNEL(
		"rem.u32 %r1, %t, 10;\n"
		"{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b;\n"
		"call (b), fib, (a); ld.param.b32 %r2, [b]; }\n"
		"st.global.u32 [%mine], %r2;");

static void test_recursion(_unused_ void **state)
{
	static const uint32_t want[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};

	run_kernel(fibonacci, 1, 64);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(out[i], want[i % 10]);
}

static const char by_address[] = PTX_HEAD
	".func (.param .b32 r) one(.param .b32 x)\n{\n"
	".reg .b32 %r; ld.param.u32 %r, [x]; add.u32 %r, %r, 1; st.param.b32 [r], %r; ret;\n}\n"
	".func (.param .b32 r) two(.param .b32 x)\n{\n"
	".reg .b32 %r; ld.param.u32 %r, [x]; mul.lo.u32 %r, %r, 2; st.param.b32 [r], %r; ret;\n}\n"
	".global .align 8 .u64 table[2] = {one, two};\n" KERNEL(
		"and.b32 %r1, %t, 1; mul.wide.u32 %d1, %r1, 8; mov.u64 %d2, table;\n"
		"add.u64 %d1, %d1, %d2; ld.global.u64 %d3, [%d1];\n"
		"{ .param .b32 a; st.param.b32 [a], %t; .param .b32 b;\n"
		"P: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
		"call (b), %d3, (a), P; ld.param.b32 %r2, [b]; }\n"
		"st.global.u32 [%mine], %r2;");

static void test_call_by_address(_unused_ void **state)
{
	run_kernel(by_address, 1, 64);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(out[i], i & 1 ? i * 2 : i + 1);
}

static void test_local_memory(_unused_ void **state)
{
	/* By a generic address: an array of each thread. */
	run_kernel(PTX_HEAD KERNEL(".local .align 8 .b8 depot[64];\n"
				   "mov.u64 %d1, depot; cvta.local.u64 %d2, %d1;\n"
				   "and.b32 %r1, %t, 15; mul.wide.u32 %d3, %r1, 4;\n"
				   "add.u64 %d4, %d2, %d3; st.u32 [%d4], %t;\n"
				   "add.u64 %d5, %d1, %d3; ld.local.u32 %r2, [%d5];\n"
				   "add.u32 %r2, %r2, 1; st.global.u32 [%mine], %r2;"),
		1, 64);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(out[i], i + 1);
}

static void test_shared_and_barrier(_unused_ void **state)
{
	/* Each warp reads what another wrote. */
	run_kernel(
		PTX_HEAD KERNEL(".shared .align 4 .b8 buffer[1024];\n"
				"mov.u32 %r1, buffer; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2;\n"
				"st.shared.u32 [%r3], %t; bar.sync 0;\n"
				"xor.b32 %r4, %r2, 1020; add.u32 %r4, %r1, %r4;\n"
				"ld.shared.u32 %r5, [%r4]; st.global.u32 [%mine], %r5;"),
		1, 256);
	for (uint32_t i = 0; i < 256; i++)
		assert_int_equal(out[i], 255 - i);
}

static void test_vectors(_unused_ void **state)
{
	uint32_t *in = (uint32_t *)(void *)device.memory;

	for (uint32_t i = 0; i < 4 * 32; i++)
		in[i] = i * 0x01010101u;
	run_kernel(PTX_HEAD KERNEL("mul.wide.u32 %d1, %t, 16; add.u64 %d2, %in, %d1;\n"
				   "add.u64 %d3, %out, %d1;\n"
				   "ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%d2];\n"
				   "ld.global.v2.s8 {%r5, %r6}, [%d2+14]; add.s32 %r4, %r5, %r6;\n"
				   "st.global.v4.u32 [%d3], {%r3, %r1, %r4, 7};"),
		1, 32);
	for (size_t i = 0; i < 32; i++) {
		int8_t byte = (int8_t)(i * 4 + 3);

		assert_int_equal(out[i * 4], (i * 4 + 2) * 0x01010101u);
		assert_int_equal(out[i * 4 + 1], i * 4 * 0x01010101u);
		assert_int_equal((int32_t)out[i * 4 + 2], byte * 2);
		assert_int_equal(out[i * 4 + 3], 7);
	}
}

static void test_vector_atomics(_unused_ void **state)
{
	/* An addend that is also the destination; halves in one register; no result. */
	run_kernel(PTX_HEAD KERNEL("mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;\n"
				   "atom.global.v2.f32.add {%f2, %f1}, [%out+8], {%f1, %f2};\n"
				   "setp.ne.u32 %p1, %t, 31; @%p1 bra NEXT;\n"
				   "st.global.v2.f32 [%out+24], {%f2, %f1};\n"
				   "NEXT: mov.b32 %r1, 0x40003c00;\n"
				   "red.global.add.noftz.v4.f16x2 [%out+32], {%r1, 0, %r1, %r1};"),
		1, 32);
	assert_int_equal(out[2], 0x42000000); /* 32 */
	assert_int_equal(out[3], 0x42800000); /* 64 */
	assert_int_equal(out[6], 0x41f80000); /* 31 was there before */
	assert_int_equal(out[7], 0x42780000); /* 62 */
	assert_int_equal(out[8], 0x54005000); /* 64 and 32 */
	assert_int_equal(out[9], 0);
	assert_int_equal(out[11], 0x54005000);
}

static void test_atomics(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL("atom.global.add.u32 %r1, [%out], %t;\n"
				   "red.global.max.s32 [%out+4], %t;\n"
				   "atom.global.inc.u32 %r2, [%out+8], 9;\n"
				   "atom.global.cas.b32 %r3, [%out+12], 0, %t;\n"
				   "mov.f32 %f1, 0f3F000000; red.global.add.f32 [%out+16], %f1;\n"
				   "shl.b32 %r4, 1, %t; atom.global.or.b32 %r5, [%out+20], %r4;"),
		2, 32);
	assert_int_equal(out[0], 2 * 31 * 16);
	assert_int_equal(out[1], 31);
	assert_int_equal(out[2], 64 % 10);
	assert_int_equal(out[3], 1);
	assert_int_equal(out[4], 0x42000000);
	assert_int_equal(out[5], UINT32_MAX);
}

static void test_shuffles(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL(
			   "shfl.sync.down.b32 %r1|%p1, %t, 3, 31, -1;\n"
			   "shfl.sync.up.b32 %r2, %t, 1, 0, -1;\n"
			   "shfl.sync.bfly.b32 %r3, %t, 5, 31, -1;\n"
			   "shfl.sync.idx.b32 %r4, %t, 2, 6175, -1;\n"
			   "selp.u32 %r5, 1, 0, %p1; shl.b32 %r2, %r2, 8; shl.b32 %r3, %r3, 16;\n"
			   "shl.b32 %r4, %r4, 24; or.b32 %r1, %r1, %r2; or.b32 %r3, %r3, %r4;\n"
			   "or.b32 %r1, %r1, %r3; shl.b32 %r5, %r5, 7; or.b32 %r1, %r1, %r5;\n"
			   "st.global.u32 [%mine], %r1;"),
		1, 32);
	for (size_t i = 0; i < 32; i++) {
		uint32_t down = i < 29 ? (i + 3) | 0x80 : i, up = i ? i - 1 : 0;

		assert_int_equal(out[i], down | up << 8 | (i ^ 5) << 16 | ((i & 24) + 2) << 24);
	}
}

static void test_votes(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL(
			   "and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0;\n"
			   "vote.sync.ballot.b32 %r2, %p1, -1;\n"
			   "vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, !%p1, -1;\n"
			   "match.any.sync.b32 %r3, %r1, -1; redux.sync.add.u32 %r4, %t, -1;\n"
			   "selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 2, 0, %p3;\n"
			   "add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r4; xor.b32 %r2, %r2, %r3;\n"
			   "mul.wide.u32 %d1, %t, 4; add.u64 %mine, %mine, %d1;\n"
			   "st.global.v2.u32 [%mine], {%r2, %r5};"),
		1, 32);
	for (size_t i = 0; i < 32; i++) {
		assert_int_equal(out[i * 2], 0x11111111u ^ 0x11111111u << (i & 3));
		assert_int_equal(out[i * 2 + 1], 31 * 16 + 1);
	}
}

/* Lanes that reach a shuffle by two paths, and at different times. */
static void test_meeting_apart(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL(
			   "setp.lt.u32 %p1, %t, 8; @%p1 bra FEW;\n"
			   "shfl.sync.bfly.b32 %r1, %t, 16, 31, -1; bra JOIN;\n"
			   "FEW: add.u32 %r2, %t, 100; shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;\n"
			   "JOIN: st.global.u32 [%mine], %r1;"),
		1, 32);
	for (size_t i = 0; i < 32; i++)
		assert_int_equal(out[i], (i ^ 16) + ((i ^ 16) < 8 ? 100 : 0));
}

/* One lane holds a lock for which its neighbours spin. */
static void test_spin_lock(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL("LOOP: atom.global.cas.b32 %r1, [%out], 0, 1;\n"
				   "setp.ne.u32 %p1, %r1, 0; @%p1 bra LOOP;\n"
				   "ld.volatile.global.u32 %r2, [%out+4]; add.u32 %r2, %r2, 1;\n"
				   "st.volatile.global.u32 [%out+4], %r2; membar.gl;\n"
				   "atom.global.exch.b32 %r3, [%out], 0;"),
		3, 64);
	assert_int_equal(out[1], 3 * 64);
}

/* A block waits for a later block. */
static void test_blocks_wait(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL("mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;\n"
				   "red.global.add.u32 [%out], 1;\n"
				   "LOOP: ld.acquire.gpu.global.u32 %r3, [%out];\n"
				   "setp.ne.u32 %p1, %r3, %r2; @%p1 bra LOOP;\n"
				   "red.global.add.u32 [%out+4], %r1;"),
		40, 1);
	assert_int_equal(out[1], 39 * 20);
}

static void test_barrier_votes(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL("rem.u32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0;\n"
				   "bar.red.popc.u32 %r2, 0, %p1; bar.red.and.pred %p2, 0, %p1;\n"
				   "bar.red.or.pred %p3, 0, %p1;\n"
				   "selp.u32 %r3, 100, 0, %p2; selp.u32 %r4, 1000, 0, %p3;\n"
				   "add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;\n"
				   "st.global.u32 [%mine], %r2;"),
		1, 70);
	for (uint32_t i = 0; i < 70; i++)
		assert_int_equal(out[i], 24 + 1000);
}

/* One warp produces, another consumes: two barriers with counts. */
static void test_named_barriers(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL(".shared .align 4 .b32 value;\n"
				   "setp.ge.u32 %p1, %t, 32; @%p1 bra TAKE;\n"
				   "st.shared.u32 [value], 77; bar.arrive 1, 64; ret;\n"
				   "TAKE: bar.sync 1, 64; ld.shared.u32 %r1, [value];\n"
				   "st.global.u32 [%mine], %r1;"),
		1, 64);
	for (uint32_t i = 32; i < 64; i++)
		assert_int_equal(out[i], 77);
}

/* The last thread at a barrier continues, or exits, without waiting. */
static void test_barrier_left(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL(".shared .align 4 .b32 value;\n"
				   "setp.lt.u32 %p1, %t, 32; @%p1 bra TAKE;\n"
				   "st.shared.u32 [value], 77; bar.arrive 1, 64; ret;\n"
				   "TAKE: bar.sync 1, 64; ld.shared.u32 %r1, [value];\n"
				   "bar.sync 0; st.global.u32 [%mine], %r1;"),
		1, 64);
	for (size_t i = 0; i < 32; i++)
		assert_int_equal(out[i], 77);
	run_kernel(PTX_HEAD KERNEL("setp.ge.u32 %p1, %t, 32; @%p1 exit;\n"
				   "bar.sync 0; st.global.u32 [%mine], %t;"),
		1, 64);
	for (size_t i = 0; i < 32; i++)
		assert_int_equal(out[i], i);
}

static void test_special_registers(_unused_ void **state)
{
	run_kernel(PTX_HEAD KERNEL(
			   "mov.u32 %r1, %laneid; mov.u32 %r2, %warpid; mov.u32 %r3, %ctaid.x;\n"
			   "mov.u32 %r4, %ntid.x; mad.lo.u32 %r5, %r3, %r4, %t;\n"
			   "mul.wide.u32 %d1, %r5, 8; add.u64 %d1, %out, %d1;\n"
			   "mad.lo.u32 %r2, %r2, 32, %r1; mov.u32 %r6, %lanemask_lt;\n"
			   "popc.b32 %r6, %r6; mad.lo.u32 %r3, %r3, 100, %r6;\n"
			   "st.global.v2.u32 [%d1], {%r2, %r3};"),
		3, 48);
	for (size_t i = 0; i < (size_t)3 * 48; i++) {
		assert_int_equal(out[i * 2], i % 48);
		assert_int_equal(out[i * 2 + 1], i / 48 * 100 + i % 48 % 32);
	}
}

/* Blocks of a cluster write into each other's shared memory. */
static void test_cluster(_unused_ void **state)
{
	static const char text[] = PTX_HEAD
		".visible .entry k(.param .u64 k_in, .param .u64 k_out)\n"
		".explicitcluster\n.reqnctapercluster 4, 1, 1\n{\n"
		".reg .b32 %r<16>; .reg .b64 %d<8>; .shared .align 4 .b8 s[128];\n"
		"ld.param.u64 %d1, [k_out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank;\n"
		"mov.u32 %r3, %cluster_nctarank; mov.u32 %r4, %ctaid.x; mov.u32 %r5, "
		"%clusterid.x;\n"
		"add.u32 %r6, %r2, 1; rem.u32 %r6, %r6, %r3; shl.b32 %r7, %r1, 2;\n"
		"mov.u32 %r8, s; add.u32 %r8, %r8, %r7; mapa.shared::cluster.u32 %r9, %r8, %r6;\n"
		"mad.lo.u32 %r10, %r4, 1000, %r1; st.shared::cluster.u32 [%r9], %r10;\n"
		"barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
		"ld.shared.u32 %r11, [%r8]; mad.lo.u32 %r12, %r5, 100000, %r11;\n"
		"mad.lo.u32 %r13, %r4, 32, %r1; mul.wide.u32 %d2, %r13, 4; add.u64 %d3, %d1, %d2;\n"
		"st.global.u32 [%d3], %r12; ret;\n}\n";

	run_kernel(text, 8, 32);
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t block = i / 32, cluster = block / 4;
		uint32_t writer = cluster * 4 + (block + 3) % 4;

		assert_int_equal(out[i], cluster * 100000 + writer * 1000 + i % 32);
	}
}

static void test_illegal_address(_unused_ void **state)
{
	struct ptx_fault fault;

	assert_int_equal(run_fault(PTX_HEAD KERNEL("st.global.u32 [64], %t;"), 1, &fault),
		PTX_FAULT_ADDRESS);
	assert_int_equal(fault.address, 64);
	assert_true(fault.is_write);
	assert_int_equal(run_fault(PTX_HEAD KERNEL("ld.global.u32 %r1, [%in+65536];"), 1, &fault),
		PTX_FAULT_ADDRESS);
	assert_int_equal(fault.address, device_address(DEVICE_SIZE));
	assert_false(fault.is_write);
	assert_int_equal(run_fault(PTX_HEAD KERNEL(".shared .b32 x; mov.u32 %r1, 4096;"
						   "ld.shared.u32 %r2, [%r1+0];"),
				 1, &fault),
		PTX_FAULT_ADDRESS);
	assert_int_equal(
		run_fault(PTX_HEAD KERNEL("mov.u64 %d1, 4398046511104;"
					  "P: .callprototype (.reg .b32 _) _ (.reg .b32 _);\n"
					  "call (%r1), %d1, (%r2), P;"),
			1, &fault),
		PTX_FAULT_ADDRESS);
}

static void test_misaligned_address(_unused_ void **state)
{
	struct ptx_fault fault;

	assert_int_equal(run_fault(PTX_HEAD KERNEL("ld.global.u32 %r1, [%in+2];"), 1, &fault),
		PTX_FAULT_MISALIGNED);
	assert_int_equal(run_fault(PTX_HEAD KERNEL("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%in+8];"),
				 1, &fault),
		PTX_FAULT_MISALIGNED);
}

static void test_trap_and_deadlock(_unused_ void **state)
{
	struct ptx_fault fault;

	assert_int_equal(run_fault(PTX_HEAD KERNEL("trap;"), 1, &fault), PTX_FAULT_TRAP);
	/* Half of the block at each of two barriers: a deadlock. */
	assert_int_equal(run_fault(PTX_HEAD KERNEL("setp.lt.u32 %p1, %t, 32; @%p1 bra A;\n"
						   "bar.sync 0; ret; A: bar.sync 1;"),
				 64, &fault),
		PTX_FAULT_TRAP);
}

static void test_cancel(_unused_ void **state)
{
	static const char text[] = PTX_HEAD ".visible .entry k() { LOOP: bra LOOP; }\n";
	struct ptx_module *module = load(text);
	atomic_bool cancelled = true;
	struct ptx_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .cancelled = &cancelled};
	struct ptx_fault fault;

	assert_int_equal(ptx_kernel_run(ptx_module_find(module, "k"), &launch, &fault), -EFAULT);
	assert_int_equal(fault.kind, PTX_FAULT_CANCELLED);
	ptx_module_free(module);
}

static const char printing[] = PTX_HEAD
	".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
	".global .align 1 .b8 form[26] = {37,53,100,124,37,45,52,120,124,37,46,50,102,124,37,115,"
	"124,37,108,108,117,37,37,10,0};\n"
	".global .align 1 .b8 word[4] = {97, 98, 99, 0};\n" KERNEL(
		".local .align 8 .b8 args[40]; mov.u64 %d1, args; cvta.local.u64 %d2, %d1;\n"
		"mov.u32 %r1, -3; st.local.u32 [%d1], %r1; mov.u32 %r1, 171; st.local.u32 [%d1+4], "
		"%r1;\n"
		"mov.b64 %d3, 0d4002000000000000; st.local.u64 [%d1+8], %d3;\n"
		"mov.u64 %d4, word; cvta.global.u64 %d4, %d4; st.local.u64 [%d1+16], %d4;\n"
		"mov.u64 %d5, 5000000000; st.local.u64 [%d1+24], %d5; mov.u64 %d6, form;\n"
		"{ .param .b64 a; st.param.b64 [a], %d6; .param .b64 b; st.param.b64 [b], %d2;\n"
		".param .b32 c; call (c), vprintf, (a, b); ld.param.b32 %r2, [c]; }\n"
		"st.global.u32 [%mine], %r2;");

static void test_printf(_unused_ void **state)
{
	run_kernel(printing, 1, 1);
	assert_string_equal(device.printed, "   -3|ab  |2.25|abc|5000000000%\n");
	assert_int_equal(out[0], 5);
}

static void test_bad_shapes(_unused_ void **state)
{
	static const char text[] = PTX_HEAD ".visible .entry k() .maxntid 64, 1, 1 { ret; }\n";
	struct ptx_module *module = load(text);
	struct ptx_fault fault;

	assert_int_equal(run(module, "k", 1, 64, NULL, &fault), 0);
	assert_int_equal(run(module, "k", 1, 65, NULL, &fault), -EINVAL);
	assert_int_equal(run(module, "k", 0, 1, NULL, &fault), -EINVAL);
	assert_int_equal(ptx_kernel_info(ptx_module_find(module, "k"))->max_threads, 64);
	ptx_module_free(module);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_loop_apart),
		TEST(test_jump_table),
		TEST(test_recursion),
		TEST(test_call_by_address),
		TEST(test_local_memory),
		TEST(test_shared_and_barrier),
		TEST(test_vectors),
		TEST(test_vector_atomics),
		TEST(test_atomics),
		TEST(test_shuffles),
		TEST(test_votes),
		TEST(test_meeting_apart),
		TEST(test_spin_lock),
		TEST(test_blocks_wait),
		TEST(test_barrier_votes),
		TEST(test_named_barriers),
		TEST(test_barrier_left),
		TEST(test_special_registers),
		TEST(test_cluster),
		TEST(test_illegal_address),
		TEST(test_misaligned_address),
		TEST(test_trap_and_deadlock),
		TEST(test_cancel),
		TEST(test_printf),
		TEST(test_bad_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
