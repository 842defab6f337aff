/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Branches, calls and ends. Runs on the thread that runs the kernel. An instruction
 * that makes lanes diverge leaves the program counter of each lane in the warp.
 */

#include <string.h>

#include "base.h"
#include "tests/softgpu/ptx/memory.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

/* A stack deeper than a device's means an endless recursion. */
#define ROWS_MAX (1u << 16)
#define LOCAL_MAX (512u << 10)

/* To `target', unless other lanes must get a turn. */
static const struct ptx_insn *jump(
	struct ptx_warp *warp, const struct ptx_insn *in, const struct ptx_insn *target)
{
	if (likely(target > in) || likely(--warp->budget > 0))
		return target;
	ptx_warp_set_pc(warp, warp->mask, target);
	warp->yielded |= warp->mask;
	return NULL;
}

PTX_EXEC(exec_bra)
{
	return jump(warp, in, in->target);
}

/* extra: 1 if lanes with a false predicate branch. */
PTX_EXEC(exec_bra_if)
{
	uint32_t mask = warp->mask, taken = 0;
	PTX_SOURCE(a);

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		taken |= (uint32_t)((a[l].u8 ^ in->extra) & 1) << l;
	}
	if (taken == mask)
		return jump(warp, in, in->target);
	if (!taken)
		return in + 1;
	ptx_warp_set_pc(warp, taken, in->target);
	ptx_warp_set_pc(warp, mask & ~taken, in + 1);
	if (in->target <= in && --warp->budget <= 0)
		warp->yielded |= taken;
	return NULL;
}

static void translate_bra(struct ptx_tr *tr)
{
	const struct ptx_operand *operand = ptx_tr_operand(tr, 0);
	struct ptx_symbol *label;
	struct ptx_insn *in;
	int32_t row = 0;
	uint32_t index;

	ptx_tr_take(tr, "uni");
	if (!ptx_tr_count(tr, 1))
		return;
	label = operand->kind == PTX_OPERAND_NAME ? ptx_tr_symbol(tr, operand->name, &index) : NULL;
	if (!label || label->kind != PTX_SYMBOL_LABEL || operand->offset || operand->is_negated) {
		ptx_tr_fail(tr, -EINVAL, "'%s' is not a label",
			operand->kind == PTX_OPERAND_NAME ? operand->name : "the target");
		return;
	}
	if (tr->stmt->guard) {
		struct ptx_operand guard = {.kind = PTX_OPERAND_NAME, .name = tr->stmt->guard};

		row = ptx_tr_source(tr, &guard, PTX_PRED);
	}
	in = ptx_tr_emit(tr, tr->stmt->guard ? exec_bra_if : exec_bra);
	in->a = row;
	in->extra = tr->stmt->guard_is_negated;
	in->imm = label->stmt;
	in->flags = PTX_INSN_BRANCH | PTX_INSN_PARTS;
}

/* As many branches follow it as there are targets. */
PTX_EXEC(exec_brx)
{
	PTX_SOURCE(a);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		if (a[l].u32 >= in->extra)
			return ptx_run_fault(warp->run, PTX_FAULT_TRAP, 0, false);
		warp->pc[l] = in + 1 + a[l].u32;
	}
	return NULL;
}

static void emit_targets(struct ptx_tr *tr, const struct ptx_symbol *list)
{
	for (uint32_t i = 0; i < list->targets->n_items; i++) {
		const struct ptx_operand *item = &list->targets->items[i];
		struct ptx_symbol *label = NULL;
		struct ptx_insn *in;
		uint32_t index;

		if (item->kind == PTX_OPERAND_NAME)
			label = ptx_tr_symbol(tr, item->name, &index);
		if (!label || label->kind != PTX_SYMBOL_LABEL) {
			ptx_tr_fail(
				tr, -EINVAL, "'%s' has a target that is not a label", list->name);
			return;
		}
		in = ptx_tr_emit(tr, exec_bra);
		in->imm = label->stmt;
		in->flags = PTX_INSN_BRANCH | PTX_INSN_PARTS;
	}
}

static void translate_brx(struct ptx_tr *tr)
{
	const struct ptx_operand *operand = ptx_tr_operand(tr, 1);
	struct ptx_symbol *list = NULL;
	struct ptx_insn *in;
	uint32_t index;
	int32_t row;

	if (!ptx_tr_take(tr, "idx"))
		ptx_tr_refuse(tr);
	ptx_tr_take(tr, "uni");
	if (!ptx_tr_count(tr, 2))
		return;
	if (operand->kind == PTX_OPERAND_NAME)
		list = ptx_tr_symbol(tr, operand->name, &index);
	if (!list || list->kind != PTX_SYMBOL_TARGETS) {
		ptx_tr_bad_operand(tr, 1);
		return;
	}
	row = ptx_tr_source(tr, ptx_tr_operand(tr, 0), PTX_U32);
	in = ptx_tr_emit(tr, exec_brx);
	in->a = row;
	in->extra = list->targets->n_items;
	in->flags = PTX_INSN_PARTS;
	emit_targets(tr, list);
}

PTX_EXEC(exec_exit)
{
	(void)in;
	warp->live &= ~warp->mask;
	warp->ready &= ~warp->mask;
	if (warp->meeting)
		ptx_warp_resolve(warp);
	return NULL;
}

PTX_EXEC(exec_trap)
{
	(void)in;
	return ptx_run_fault(warp->run, PTX_FAULT_TRAP, 0, false);
}

/* A lane that sleeps lets other lanes run. */
PTX_EXEC(exec_nanosleep)
{
	ptx_warp_set_pc(warp, warp->mask, in + 1);
	warp->yielded |= warp->mask;
	return NULL;
}

static void copy_places(struct ptx_warp *warp, unsigned l, const struct ptx_place *from,
	uint32_t from_frame, uint32_t from_local, const struct ptx_place *to, uint32_t to_frame,
	uint32_t to_local)
{
	uint8_t *local = ptx_warp_local(warp, l);
	const void *source = local + from_local + from->offset;
	void *dest = local + to_local + to->offset;

	if (from->is_row)
		source = from->row >= 0 ? &warp->rows[from_frame + (uint32_t)from->row].v[l]
					: &warp->constants[~from->row].v[l];
	if (to->is_row) {
		dest = &warp->rows[to_frame + (uint32_t)to->row].v[l];
		*(uint64_t *)dest = 0;
	}
	memcpy(dest, source, to->size);
}

static void enter(
	struct ptx_warp *warp, unsigned l, const struct ptx_insn *in, const struct ptx_code *callee)
{
	const struct ptx_call *call = in->call;
	uint32_t frame = warp->frame + call->caller_rows;
	uint32_t local = warp->local_base + call->caller_local;
	struct ptx_row *rows = warp->rows + frame;

	for (uint32_t i = 0; i < call->n_args; i++)
		copy_places(warp, l, &call->args[i], warp->frame, warp->local_base,
			&callee->params[i], frame, local);
	rows[PTX_ROW_RETURN].v[l].u64 = (uintptr_t)(in + 1);
	rows[PTX_ROW_FRAME].v[l].u64 = (uint64_t)warp->frame << 32 | warp->local_base;
	/* The locations of the results, for the return. */
	rows[PTX_ROW_CALLEE].v[l].u64 = (uintptr_t)callee;
	warp->frames[l] = frame;
	warp->local_bases[l] = local;
	warp->pc[l] = callee->insns;
}

static bool is_callable(const struct ptx_call *call, const struct ptx_code *callee)
{
	if (!callee->is_known || callee->n_params != call->n_args ||
		callee->n_results != call->n_results)
		return false;
	for (uint32_t i = 0; i < call->n_args; i++)
		if (callee->params[i].size != call->args[i].size)
			return false;
	for (uint32_t i = 0; i < call->n_results; i++)
		if (callee->results[i].size != call->results[i].size)
			return false;
	return true;
}

/* The function at an address; NULL if there is none with this prototype. */
static const struct ptx_code *code_at(
	const struct ptx_warp *warp, const struct ptx_call *call, uint64_t address)
{
	const struct ptx_module *module = warp->run->kernel->module;
	uint64_t index = (address - PTX_WINDOW_CODE) / PTX_CODE_STRIDE - 1;

	if (address < PTX_WINDOW_CODE || address % PTX_CODE_STRIDE || index >= module->n_codes)
		return NULL;
	return is_callable(call, &module->codes[index]) ? &module->codes[index] : NULL;
}

/* Finds the function that each lane calls, and reserves room for all of them. */
static bool find_callees(struct ptx_warp *warp, const struct ptx_row *r,
	const struct ptx_call *call, const struct ptx_code **callees)
{
	uint32_t rows = warp->frame + call->caller_rows, n_rows = rows;
	uint32_t local = warp->local_base + call->caller_local, local_size = local;

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		callees[l] = call->callee;
		if (!callees[l])
			callees[l] =
				code_at(warp, call, ptx_source(warp, r, call->address)->v[l].u64);
		if (!callees[l]) {
			ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, 0, false);
			return false;
		}
		n_rows = MAX(n_rows, rows + callees[l]->n_rows);
		local_size = MAX(local_size, local + callees[l]->local_size);
	}
	if (n_rows > ROWS_MAX || local_size > LOCAL_MAX) {
		ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, 0, true);
		return false;
	}
	return ptx_warp_reserve(warp, n_rows, local_size);
}

PTX_EXEC(exec_call)
{
	const struct ptx_code *callees[PTX_LANES];

	if (!find_callees(warp, r, in->call, callees))
		return NULL;
	/* The rows may have moved: `r' is no longer valid. */
	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		enter(warp, l, in, callees[l]);
	}
	return NULL;
}

PTX_EXEC(exec_ret)
{
	(void)in;
	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		const struct ptx_insn *next = (const void *)(uintptr_t)r[PTX_ROW_RETURN].v[l].u64;
		const struct ptx_code *callee = (const void *)(uintptr_t)r[PTX_ROW_CALLEE].v[l].u64;
		uint64_t caller = r[PTX_ROW_FRAME].v[l].u64;
		const struct ptx_call *call = next[-1].call;

		for (uint32_t i = 0; i < call->n_results; i++)
			copy_places(warp, l, &callee->results[i], warp->frame, warp->local_base,
				&call->results[i], (uint32_t)(caller >> 32), (uint32_t)caller);
		warp->pc[l] = next;
		warp->frames[l] = (uint32_t)(caller >> 32);
		warp->local_bases[l] = (uint32_t)caller;
	}
	return NULL;
}

static void translate_end(struct ptx_tr *tr)
{
	bool is_exit = tr->mnemonic[0] == 'e' || tr->function->is_entry;

	ptx_tr_take(tr, "uni");
	if (ptx_tr_count(tr, 0))
		ptx_tr_emit(tr, is_exit ? exec_exit : exec_ret)->flags = PTX_INSN_PARTS;
}

void ptx_tr_emit_end(struct ptx_tr *tr)
{
	ptx_tr_emit(tr, tr->function->is_entry ? exec_exit : exec_ret)->flags = PTX_INSN_PARTS;
}

static void translate_trap(struct ptx_tr *tr)
{
	if (ptx_tr_count(tr, 0))
		ptx_tr_emit(tr, exec_trap)->flags = PTX_INSN_PARTS;
}

static void translate_nanosleep(struct ptx_tr *tr)
{
	ptx_tr_take(tr, "u32");
	if (!ptx_tr_count(tr, 1))
		return;
	ptx_tr_source(tr, ptx_tr_operand(tr, 0), PTX_U32);
	ptx_tr_emit(tr, exec_nanosleep)->flags = PTX_INSN_PARTS;
}

/* Advice for another kind of scheduler, without an effect here. */
static void translate_nothing(struct ptx_tr *tr)
{
	for (uint32_t i = 0; i < tr->n_modifiers; i++)
		tr->taken[i] = true;
}

static const struct ptx_family families[] = {
	{"bra", translate_bra},
	{"brx", translate_brx},
	{"call", ptx_translate_call},
	{"ret", translate_end},
	{"exit", translate_end},
	{"trap", translate_trap},
	{"brkpt", translate_trap},
	{"nanosleep", translate_nanosleep},
	{"pmevent", translate_nothing},
	{"setmaxnreg", translate_nothing},
	{"griddepcontrol", translate_nothing},
};

const struct ptx_family_table ptx_control_families = {families, ARRAY_SIZE(families)};

struct ptx_insn *ptx_tr_emit_call(struct ptx_tr *tr)
{
	return ptx_tr_emit(tr, exec_call);
}
