/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finding memory: the slow path of every access, and the addresses of the
 * translator. Memory is accessed only after a range covers it.
 */

#include "memory.h"

#include <string.h>

#include "heap.h"

const struct ptx_insn *ptx_run_fault(
	struct ptx_run *run, enum ptx_fault_kind kind, uint64_t address, bool is_write)
{
	if (run->fault.kind == PTX_FAULT_NONE)
		run->fault = (struct ptx_fault){kind, address, is_write};
	return NULL;
}

static bool covers(const struct ptx_range *range, uint64_t addr, uint32_t size)
{
	return addr >= range->start && range_ok(addr - range->start, size, range->size);
}

static bool lookup(const struct ptx_run *run, uint64_t addr, struct ptx_range *ret_range)
{
	const struct ptx_launch *launch = run->launch;
	uint64_t start, end;

	if (!launch->lookup || !launch->lookup(launch->user, addr, &start, &end))
		if (!ptx_heap_lookup(addr, &start, &end))
			return false;
	if (end < start)
		return false;
	*ret_range = (struct ptx_range){start, end - start};
	return true;
}

void *ptx_run_find(struct ptx_run *run, uint64_t addr, uint32_t size, bool is_write)
{
	struct ptx_range range;
	unsigned i;

	for (i = 1; i < PTX_RANGES; i++)
		if (covers(&run->ranges[i], addr, size))
			break;
	if (i < PTX_RANGES) {
		range = run->ranges[i];
	} else {
		i = PTX_RANGES - 1;
		if (!lookup(run, addr, &range) || !covers(&range, addr, size)) {
			ptx_run_fault(run, PTX_FAULT_ADDRESS, addr, is_write);
			return NULL;
		}
	}
	memmove(&run->ranges[1], &run->ranges[0], i * sizeof(range));
	run->ranges[0] = range;
	return (void *)(uintptr_t)addr;
}

static void *at_param(struct ptx_warp *warp, uint64_t addr, uint32_t size, bool is_write)
{
	uint32_t at = (uint32_t)addr;

	if (at & (size - 1)) {
		ptx_run_fault(warp->run, PTX_FAULT_MISALIGNED, addr, is_write);
		return NULL;
	}
	if (is_write || !range_ok(at, size, warp->run->kernel->info.param_size)) {
		ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, addr, is_write);
		return NULL;
	}
	return (char *)(uintptr_t)warp->run->params + at;
}

static void *at_run(struct ptx_run *run, uint64_t addr, uint32_t size, bool is_write)
{
	uint64_t at = addr - PTX_WINDOW_RUN;

	if (at & (size - 1)) {
		ptx_run_fault(run, PTX_FAULT_MISALIGNED, addr, is_write);
		return NULL;
	}
	if (range_ok(at, size, sizeof(run->workspace)))
		return (char *)run->workspace + at;
	ptx_run_fault(run, PTX_FAULT_ADDRESS, addr, is_write);
	return NULL;
}

void *ptx_warp_at(struct ptx_warp *warp, unsigned lane, enum ptx_space space, uint64_t addr,
	uint32_t size, bool is_write)
{
	if (space == PTX_SPACE_PARAM)
		return at_param(warp, addr, size, is_write);
	if (space == PTX_SPACE_SHARED || addr - PTX_WINDOW_SHARED < PTX_WINDOW_SIZE)
		return ptx_at_shared(warp, lane, addr, size, is_write);
	if (space == PTX_SPACE_LOCAL || addr - PTX_WINDOW_LOCAL < PTX_WINDOW_SIZE)
		return ptx_at_local(warp, lane, addr, size, is_write);
	if (addr - PTX_WINDOW_PARAM < PTX_WINDOW_SIZE)
		return at_param(warp, addr, size, is_write);
	if (addr - PTX_WINDOW_RUN < PTX_WINDOW_SIZE)
		return at_run(warp->run, addr, size, is_write);
	return ptx_at_global(warp, lane, addr, size, is_write);
}

enum ptx_space ptx_tr_take_space(struct ptx_tr *tr)
{
	static const char *const names[] = {"global", "const", "shared", "shared::cta",
		"shared::cluster", "local", "param", "param::entry", "param::func", NULL};
	static const enum ptx_space spaces[] = {PTX_SPACE_GLOBAL, PTX_SPACE_CONST, PTX_SPACE_SHARED,
		PTX_SPACE_SHARED, PTX_SPACE_SHARED, PTX_SPACE_LOCAL, PTX_SPACE_PARAM,
		PTX_SPACE_PARAM, PTX_SPACE_PARAM};
	int i = ptx_tr_take_one(tr, names);

	return i < 0 ? PTX_SPACE_GENERIC : spaces[i];
}

static enum ptx_route route_of(const struct ptx_tr *tr, enum ptx_space space)
{
	switch (space) {
	case PTX_SPACE_GLOBAL:
	case PTX_SPACE_CONST:
		return PTX_ROUTE_GLOBAL;
	case PTX_SPACE_SHARED:
		return PTX_ROUTE_SHARED;
	case PTX_SPACE_LOCAL:
		return PTX_ROUTE_LOCAL;
	case PTX_SPACE_PARAM:
		/* A function's parameters are in its frame. */
		return tr->function->is_entry ? PTX_ROUTE_PARAM : PTX_ROUTE_LOCAL;
	default:
		return PTX_ROUTE_GENERIC;
	}
}

static bool is_space_right(enum ptx_space have, enum ptx_space want)
{
	bool is_global = have == PTX_SPACE_GLOBAL || have == PTX_SPACE_CONST;

	if (have == want)
		return true;
	return is_global && (want == PTX_SPACE_GLOBAL || want == PTX_SPACE_GENERIC);
}

/* The address of a variable by its name. */
static void address_variable(struct ptx_tr *tr, const struct ptx_symbol *symbol,
	enum ptx_space space, uint32_t size, struct ptx_address *address)
{
	uint64_t at = symbol->offset + (uint64_t)address->offset;

	if (!is_space_right(symbol->space, space)) {
		ptx_tr_fail(tr, -EINVAL, "'%s' is not in the space of '%s'", symbol->name,
			tr->stmt->opcode);
		return;
	}
	if (symbol->space != PTX_SPACE_PARAM || symbol->is_entry_param) {
		address->base = ptx_tr_address(tr, symbol, 0);
		return;
	}
	if (address->offset < 0 || !range_ok((uint64_t)address->offset, size, symbol->size)) {
		ptx_tr_fail(tr, -EINVAL, "'%s' exceeds '%s'", tr->stmt->opcode, symbol->name);
		return;
	}
	address->route = PTX_ROUTE_FRAME;
	address->offset = (int64_t)at;
	address->base = ptx_tr_constant(tr, 0);
}

static int32_t base_row(struct ptx_tr *tr, const char *name)
{
	enum ptx_type type;
	int32_t row = ptx_tr_register(tr, name, &type);

	if (ptx_type_size(type) != 8 && ptx_type_size(type) != 4)
		ptx_tr_fail(tr, -EINVAL, "'%s' can't hold an address", name);
	return row;
}

struct ptx_address ptx_tr_memory(struct ptx_tr *tr, uint32_t i, enum ptx_space space, uint32_t size)
{
	const struct ptx_operand *operand = ptx_tr_operand(tr, i), *item = operand->items;
	struct ptx_address address = {.route = route_of(tr, space), .offset = operand->offset};
	struct ptx_symbol *symbol;
	uint32_t index;

	if (operand->kind != PTX_OPERAND_ADDRESS || operand->n_items != 1) {
		ptx_tr_bad_operand(tr, i);
		return address;
	}
	if (item->kind == PTX_OPERAND_INT) {
		address.offset = (int64_t)item->value;
		address.base = ptx_tr_constant(tr, 0);
		return address;
	}
	if (item->kind != PTX_OPERAND_NAME || item->is_negated) {
		ptx_tr_bad_operand(tr, i);
		return address;
	}
	symbol = ptx_tr_symbol(tr, item->name, &index);
	if (symbol && symbol->kind == PTX_SYMBOL_VAR)
		address_variable(tr, symbol, space, size, &address);
	else
		address.base = base_row(tr, item->name);
	return address;
}

/* An atomic operation instead of a bare fence: tools that detect races understand it. */
PTX_EXEC(exec_fence)
{
	static uint32_t word;

	__atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
	return in + 1;
}

void ptx_tr_emit_fence(struct ptx_tr *tr)
{
	ptx_tr_emit(tr, exec_fence);
}

bool ptx_tr_is_ordered(const struct ptx_tr *tr)
{
	static const char *const orders[] = {"acquire", "release", "acq_rel", "sc"};

	for (uint32_t m = 0; m < tr->n_modifiers; m++)
		for (unsigned i = 0; i < ARRAY_SIZE(orders); i++)
			if (!strcmp(tr->modifiers[m], orders[i]))
				return true;
	return false;
}
