/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory barriers of a block, and the copies that arrive at them. Runs on the thread
 * that runs the kernel. A copy is complete when its instruction is, so only its
 * arrival is left, and waiting for it takes no time.
 */

#include <string.h>

#include "base.h"
#include "tests/softgpu/ptx/memory.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

#define COPY_SIZE_MAX (1u << 20)

/* An mbarrier in its 64 bits: counts of 20 bits, expected bytes, the phase. */
#define COUNT_MASK 0xfffffu
#define EXPECTED_SHIFT 20
#define BYTES_SHIFT 40
#define BYTES_MASK 0x3fffffu
#define PHASE_SHIFT 63

static uint64_t barrier_make(uint64_t pending, uint64_t expected, uint64_t bytes, uint64_t phase)
{
	return (pending & COUNT_MASK) | (expected & COUNT_MASK) << EXPECTED_SHIFT |
	       (bytes & BYTES_MASK) << BYTES_SHIFT | phase << PHASE_SHIFT;
}

/* Subtracts arrivals and permanently expected arrivals, and adds expected bytes. */
static uint64_t barrier_step(uint64_t barrier, uint64_t arrive, uint64_t drop, uint64_t bytes)
{
	uint64_t pending = (barrier & COUNT_MASK) - arrive;
	uint64_t expected = (barrier >> EXPECTED_SHIFT & COUNT_MASK) - drop;
	uint64_t phase = barrier >> PHASE_SHIFT;

	bytes += barrier >> BYTES_SHIFT & BYTES_MASK;
	if ((pending & COUNT_MASK) == 0 && (bytes & BYTES_MASK) == 0)
		return barrier_make(expected, expected, 0, !phase);
	return barrier_make(pending, expected, bytes, phase);
}

enum mbarrier {
	MBARRIER_INIT,
	MBARRIER_INVAL,
	MBARRIER_ARRIVE,
	MBARRIER_DROP,
	MBARRIER_EXPECT,
	MBARRIER_ARRIVE_EXPECT,
	MBARRIER_COMPLETE,
	MBARRIER_TEST,
	MBARRIER_PARITY,
};

/* The new value of the barrier; x is the operand after its address. */
static uint64_t mbarrier_next(enum mbarrier op, uint64_t barrier, uint64_t x)
{
	switch (op) {
	case MBARRIER_INIT:
		return barrier_make(x, x, 0, 0);
	case MBARRIER_INVAL:
		return 0;
	case MBARRIER_ARRIVE:
		return barrier_step(barrier, x, 0, 0);
	case MBARRIER_DROP:
		return barrier_step(barrier, x, x, 0);
	case MBARRIER_ARRIVE_EXPECT:
		return barrier_step(barrier, 1, 0, x);
	case MBARRIER_EXPECT:
		return barrier_step(barrier, 0, 0, x);
	case MBARRIER_COMPLETE:
		return barrier_step(barrier, 0, 0, -x);
	default:
		return barrier;
	}
}

static uint64_t mbarrier_result(enum mbarrier op, uint64_t barrier, uint64_t x)
{
	if (op == MBARRIER_TEST)
		return barrier >> PHASE_SHIFT != x >> PHASE_SHIFT;
	if (op == MBARRIER_PARITY)
		return barrier >> PHASE_SHIFT != (x & 1);
	return barrier;
}

/* a, imm: the address; b: the operand after it; extra: route and operation. */
PTX_EXEC(exec_mbarrier)
{
	enum ptx_route route = (enum ptx_route)(in->extra & 0xff);
	enum mbarrier op = (enum mbarrier)(in->extra >> 8);
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_DEST(d);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint64_t *p = ptx_at(warp, route, l, a[l].u64 + (uint64_t)in->imm, 8, true);
		uint64_t x = b[l].u64, barrier;

		if (!p)
			return NULL;
		barrier = *p;
		*p = mbarrier_next(op, barrier, x);
		d[l].u64 = mbarrier_result(op, barrier, x);
	}
	return in + 1;
}

PTX_EXEC(exec_pending_count)
{
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = a[l].u64 & COUNT_MASK;);
	return in + 1;
}

static void emit_mbarrier(struct ptx_tr *tr, enum mbarrier op, enum ptx_space space, uint32_t at,
	int32_t operand, int32_t dest)
{
	struct ptx_address address = ptx_tr_memory(tr, at, space, 8);
	struct ptx_insn *in = ptx_tr_emit(tr, exec_mbarrier);

	in->a = address.base;
	in->imm = address.offset;
	in->b = operand;
	in->d = dest;
	in->extra = (uint32_t)address.route | (uint32_t)op << 8;
}

static void translate_pending_count(struct ptx_tr *tr)
{
	int32_t source, dest;
	struct ptx_insn *in;

	if (!ptx_tr_count(tr, 2))
		return;
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), PTX_B64);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B32);
	in = ptx_tr_emit(tr, exec_pending_count);
	in->a = source;
	in->d = dest;
}

/* p, [address], state {, time}: returns at once, with or without a time. */
static void translate_wait(struct ptx_tr *tr, enum ptx_space space, bool is_try)
{
	bool is_parity = ptx_tr_take(tr, "parity");
	enum mbarrier op = is_parity ? MBARRIER_PARITY : MBARRIER_TEST;
	int32_t dest, state;

	if (!(is_try && tr->stmt->n_operands == 4) && !ptx_tr_count(tr, 3))
		return;
	state = ptx_tr_source(tr, ptx_tr_operand(tr, 2), is_parity ? PTX_B32 : PTX_B64);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_PRED);
	emit_mbarrier(tr, op, space, 1, state, dest);
}

/* {state,} [address] {, count}; with `has_bytes', the operand is bytes, not a count. */
static void translate_arrive(
	struct ptx_tr *tr, enum mbarrier op, enum ptx_space space, bool has_state, bool has_bytes)
{
	uint32_t at = has_state ? 1 : 0, n = tr->stmt->n_operands;
	int32_t operand, dest;

	if (n != at + 2 && (has_bytes || !ptx_tr_count(tr, at + 1))) {
		ptx_tr_count(tr, at + 2);
		return;
	}
	operand = n == at + 2 ? ptx_tr_source(tr, ptx_tr_operand(tr, at + 1), PTX_B32)
			      : ptx_tr_constant(tr, 1);
	dest = has_state ? ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B64) : ptx_tr_temp(tr);
	emit_mbarrier(tr, op, space, at, operand, dest);
}

static void translate_mbarrier(struct ptx_tr *tr)
{
	static const char *const names[] = {"init", "inval", "arrive", "arrive_drop", "expect_tx",
		"complete_tx", "test_wait", "try_wait", "pending_count", NULL};
	enum ptx_space space = ptx_tr_take_space(tr);
	int i = ptx_tr_take_one(tr, names);
	bool expects = i == 2 && ptx_tr_take(tr, "expect_tx");

	ptx_tr_take_hints(tr);
	ptx_tr_take(tr, "noComplete");
	if (i < 0 || !ptx_tr_take(tr, "b64")) {
		ptx_tr_refuse(tr);
		return;
	}
	switch (i) {
	case 0:
		translate_arrive(tr, MBARRIER_INIT, space, false, true);
		break;
	case 1:
		translate_arrive(tr, MBARRIER_INVAL, space, false, false);
		break;
	case 2:
		translate_arrive(tr, expects ? MBARRIER_ARRIVE_EXPECT : MBARRIER_ARRIVE, space,
			true, expects);
		break;
	case 3:
		translate_arrive(tr, MBARRIER_DROP, space, true, false);
		break;
	case 4:
		translate_arrive(tr, MBARRIER_EXPECT, space, false, true);
		break;
	case 5:
		translate_arrive(tr, MBARRIER_COMPLETE, space, false, true);
		break;
	case 8:
		translate_pending_count(tr);
		break;
	default:
		translate_wait(tr, space, i == 7);
		break;
	}
}

/* `size' bytes at an aligned address. */
static void *at_bytes(struct ptx_warp *warp, enum ptx_route route, unsigned l, uint64_t addr,
	uint32_t size, uint32_t align, bool is_write)
{
	if (addr & (align - 1)) {
		ptx_run_fault(warp->run, PTX_FAULT_MISALIGNED, addr, is_write);
		return NULL;
	}
	if (size > COPY_SIZE_MAX) {
		ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, addr, is_write);
		return NULL;
	}
	if (route == PTX_ROUTE_GLOBAL)
		return ptx_run_find(warp->run, addr, size, is_write);
	/* A range that has the first and the last byte has all of them. */
	if (!ptx_at(warp, route, l, addr + size - 1, 1, is_write))
		return NULL;
	return ptx_at(warp, route, l, addr, 1, is_write);
}

/* Bytes from `b' to `a', then zeros up to the size. e is the size, m the bytes that are read. */
PTX_EXEC(exec_copy)
{
	enum ptx_route to = (enum ptx_route)(in->extra & 0xff);
	enum ptx_route from = (enum ptx_route)(in->extra >> 8 & 0xff);
	uint32_t align = in->extra >> 16;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(e);
	PTX_SOURCE(m);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint32_t size = e[l].u32, n = MIN(m[l].u32, size);
		const void *source = NULL;
		void *dest;

		if (!size)
			continue;
		dest = at_bytes(warp, to, l, a[l].u64, size, align, true);
		if (dest && n)
			source = at_bytes(warp, from, l, b[l].u64, n, align, false);
		if (!dest || (n && !source))
			return NULL;
		memset((uint8_t *)dest + n, 0, size - n);
		if (n)
			memmove(dest, source, n);
	}
	return in + 1;
}

/* Base and offset in one row. */
PTX_EXEC(exec_sum)
{
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = a[l].u64 + (uint64_t)in->imm;);
	return in + 1;
}

static int32_t whole_address(struct ptx_tr *tr, struct ptx_address address)
{
	int32_t row = ptx_tr_temp(tr);
	struct ptx_insn *in = ptx_tr_emit(tr, exec_sum);

	in->d = row;
	in->a = address.base;
	in->imm = address.offset;
	return row;
}

static void emit_copy(struct ptx_tr *tr, enum ptx_space to, enum ptx_space from, int32_t size,
	int32_t n, uint32_t align)
{
	struct ptx_address dest = ptx_tr_memory(tr, 0, to, 16);
	struct ptx_address source = ptx_tr_memory(tr, 1, from, 16);
	int32_t rows[2] = {whole_address(tr, dest), whole_address(tr, source)};
	struct ptx_insn *in = ptx_tr_emit(tr, exec_copy);

	in->a = rows[0];
	in->b = rows[1];
	in->e = size;
	in->m = n;
	in->extra = (uint32_t)dest.route | (uint32_t)source.route << 8 | align << 16;
}

/* cp.async.ca.shared.global [to], [from], size {, bytes to read} */
static void translate_small_copy(struct ptx_tr *tr)
{
	const struct ptx_operand *size;
	int32_t rows[2];

	if (ptx_tr_take_space(tr) != PTX_SPACE_GLOBAL || ptx_tr_take_space(tr) != PTX_SPACE_SHARED)
		ptx_tr_refuse(tr);
	ptx_tr_take_hints(tr);
	if (tr->stmt->n_operands != 4 && !ptx_tr_count(tr, 3))
		return;
	size = ptx_tr_operand(tr, 2);
	if (size->kind != PTX_OPERAND_INT ||
		(size->value != 4 && size->value != 8 && size->value != 16)) {
		ptx_tr_bad_operand(tr, 2);
		return;
	}
	rows[0] = ptx_tr_source(tr, size, PTX_B32);
	rows[1] = tr->stmt->n_operands == 4 ? ptx_tr_source(tr, ptx_tr_operand(tr, 3), PTX_B32)
					    : rows[0];
	emit_copy(tr, PTX_SPACE_SHARED, PTX_SPACE_GLOBAL, rows[0], rows[1], (uint32_t)size->value);
}

/* cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [from], size, [barrier]
 */
static void translate_bulk_load(struct ptx_tr *tr)
{
	int32_t size;

	ptx_tr_take(tr, "shared::cluster");
	ptx_tr_take(tr, "shared::cta");
	ptx_tr_take(tr, "global");
	if (!ptx_tr_count(tr, 4))
		return;
	size = ptx_tr_source(tr, ptx_tr_operand(tr, 2), PTX_B32);
	emit_copy(tr, PTX_SPACE_SHARED, PTX_SPACE_GLOBAL, size, size, 16);
	emit_mbarrier(tr, MBARRIER_COMPLETE, PTX_SPACE_SHARED, 3, size, ptx_tr_temp(tr));
}

/* cp.async.bulk.global.shared::cta.bulk_group [to], [from], size */
static void translate_bulk_store(struct ptx_tr *tr)
{
	int32_t size;

	ptx_tr_take(tr, "global");
	ptx_tr_take(tr, "shared::cta");
	if (!ptx_tr_count(tr, 3))
		return;
	size = ptx_tr_source(tr, ptx_tr_operand(tr, 2), PTX_B32);
	emit_copy(tr, PTX_SPACE_GLOBAL, PTX_SPACE_SHARED, size, size, 16);
}

static void translate_cp(struct ptx_tr *tr)
{
	if (!ptx_tr_take(tr, "async")) {
		ptx_tr_refuse(tr);
		return;
	}
	if (ptx_tr_take(tr, "mbarrier")) {
		bool is_counted = !ptx_tr_take(tr, "noinc");
		enum ptx_space space = ptx_tr_take_space(tr);

		/* Without noinc, the arrival was added before; the count stays the same. */
		ptx_tr_take(tr, "arrive");
		if (!ptx_tr_take(tr, "b64"))
			ptx_tr_refuse(tr);
		if (ptx_tr_count(tr, 1) && !is_counted)
			emit_mbarrier(tr, MBARRIER_ARRIVE, space, 0, ptx_tr_constant(tr, 1),
				ptx_tr_temp(tr));
		return;
	}
	if (ptx_tr_take(tr, "commit_group") || ptx_tr_take(tr, "wait_all") ||
		ptx_tr_take(tr, "wait_group")) {
		ptx_tr_take(tr, "bulk");
		ptx_tr_take(tr, "read");
	} else if (!ptx_tr_take(tr, "bulk")) {
		translate_small_copy(tr);
	} else if (ptx_tr_take(tr, "mbarrier::complete_tx::bytes")) {
		translate_bulk_load(tr);
	} else if (ptx_tr_take(tr, "bulk_group")) {
		translate_bulk_store(tr);
	} else {
		ptx_tr_refuse(tr);
	}
}

static const struct ptx_family families[] = {
	{"mbarrier", translate_mbarrier},
	{"cp", translate_cp},
};

const struct ptx_family_table ptx_async_families = {families, ARRAY_SIZE(families)};
