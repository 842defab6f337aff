/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Translates calls of the module's functions, calls through addresses, and the few
 * functions of the device runtime. Runs on the thread that loads a module.
 */

#include <string.h>

#include "base.h"
#include "heap.h"
#include "memory.h"
#include "translate.h"
#include "warp.h"

/* An argument of at most 64 bits, as the translator has checked. */
static uint64_t argument(const struct ptx_warp *warp, const struct ptx_row *r, unsigned l,
	const struct ptx_place *arg)
{
	uint64_t value = 0;

	if (arg->is_row)
		return ptx_source(warp, r, arg->row)->v[l].u64;
	memcpy(&value, ptx_warp_local(warp, l) + warp->local_base + arg->offset, arg->size);
	return value;
}

static void set_result(struct ptx_warp *warp, struct ptx_row *r, unsigned l,
	const struct ptx_call *call, uint64_t value)
{
	if (call->n_results != 1)
		return;
	if (call->results[0].is_row)
		r[call->results[0].row].v[l].u64 = value;
	else
		memcpy(ptx_warp_local(warp, l) + warp->local_base + call->results[0].offset, &value,
			call->results[0].size);
}

PTX_EXEC(exec_vprintf)
{
	const struct ptx_call *call = in->call;

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		int n = ptx_print(warp, l, argument(warp, r, l, &call->args[0]),
			argument(warp, r, l, &call->args[1]));

		if (warp->run->fault.kind != PTX_FAULT_NONE)
			return NULL;
		set_result(warp, r, l, call, (uint32_t)n);
	}
	return in + 1;
}

PTX_EXEC(exec_assertfail)
{
	const struct ptx_call *call = in->call;
	unsigned l = (unsigned)__builtin_ctz(warp->mask);
	uint32_t line = (uint32_t)argument(warp, r, l, &call->args[2]);

	ptx_print_assert(warp, l, argument(warp, r, l, &call->args[0]),
		argument(warp, r, l, &call->args[1]), line, argument(warp, r, l, &call->args[3]));
	return ptx_run_fault(warp->run, PTX_FAULT_ASSERT, 0, false);
}

PTX_EXEC(exec_malloc)
{
	const struct ptx_call *call = in->call;

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		set_result(warp, r, l, call, ptx_heap_alloc(argument(warp, r, l, &call->args[0])));
	}
	return in + 1;
}

PTX_EXEC(exec_free)
{
	const struct ptx_call *call = in->call;

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint64_t address = argument(warp, r, l, &call->args[0]);

		if (!ptx_heap_free(address))
			return ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, address, true);
	}
	return in + 1;
}

PTX_EXEC(exec_set_condition)
{
	const struct ptx_launch *launch = warp->run->launch;
	const struct ptx_call *call = in->call;

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint64_t handle = argument(warp, r, l, &call->args[0]);
		uint32_t value = (uint32_t)argument(warp, r, l, &call->args[1]);

		if (!launch->conditions ||
			!launch->set_condition(launch->conditions, handle, value))
			return ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, handle, true);
	}
	return in + 1;
}

struct builtin {
	const char *name;
	ptx_exec_fn *exec;
	uint32_t n_args, n_results;
	uint32_t sizes[5];
	uint32_t result_size;
};

static const struct builtin builtins[] = {
	{"vprintf", exec_vprintf, 2, 1, {8, 8}, 4},
	{"__assertfail", exec_assertfail, 5, 0, {8, 8, 4, 8, 8}, 0},
	{"malloc", exec_malloc, 1, 1, {8}, 8},
	{"free", exec_free, 1, 0, {8}, 0},
	{"cudaGraphSetConditional", exec_set_condition, 2, 0, {8, 4}, 0},
};

static const struct builtin *builtin_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(builtins); i++)
		if (!strcmp(builtins[i].name, name))
			return &builtins[i];
	return NULL;
}

/* The parameter variable, register or literal of a call. */
static void place_operand(struct ptx_tr *tr, const struct ptx_operand *operand, uint32_t size,
	struct ptx_place *place)
{
	struct ptx_symbol *symbol = NULL;
	enum ptx_type type;
	uint32_t index;

	if (operand->kind == PTX_OPERAND_NAME)
		symbol = ptx_tr_symbol(tr, operand->name, &index);
	if (symbol && symbol->kind == PTX_SYMBOL_VAR && symbol->space == PTX_SPACE_PARAM &&
		!symbol->is_entry_param) {
		place->offset = (uint32_t)symbol->offset;
		place->size = (uint32_t)symbol->size;
		return;
	}
	place->is_row = true;
	place->size = size;
	if (symbol && symbol->kind == PTX_SYMBOL_REG) {
		place->row = ptx_tr_register(tr, operand->name, &type);
		place->size = ptx_type_size(type);
	} else {
		place->row = ptx_tr_source(tr, operand, size == 8 ? PTX_B64 : PTX_B32);
	}
}

/* `symbols': the parameters that receive them, if known. */
static struct ptx_place *place_list(
	struct ptx_tr *tr, const struct ptx_operand *list, uint32_t n, struct ptx_symbol **symbols)
{
	struct ptx_place *places = ptx_arena_alloc(&tr->module->arena, n * sizeof(*places));

	if (!places) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++)
		place_operand(
			tr, &list->items[i], symbols ? (uint32_t)symbols[i]->size : 4, &places[i]);
	return places;
}

/* The parts of: call (results), name, (arguments), prototype; */
struct call_parts {
	const struct ptx_operand *results, *name, *args, *prototype;
};

static bool split_call(struct ptx_tr *tr, struct call_parts *parts)
{
	static const struct ptx_operand none = {.kind = PTX_OPERAND_LIST};
	const struct ptx_stmt *stmt = tr->stmt;
	uint32_t i = 0;

	*parts = (struct call_parts){&none, NULL, &none, NULL};
	if (i < stmt->n_operands && stmt->operands[i].kind == PTX_OPERAND_LIST)
		parts->results = &stmt->operands[i++];
	if (i < stmt->n_operands && stmt->operands[i].kind == PTX_OPERAND_NAME)
		parts->name = &stmt->operands[i++];
	if (i < stmt->n_operands && stmt->operands[i].kind == PTX_OPERAND_LIST)
		parts->args = &stmt->operands[i++];
	if (i < stmt->n_operands && stmt->operands[i].kind == PTX_OPERAND_NAME)
		parts->prototype = &stmt->operands[i++];
	if (parts->name && i == stmt->n_operands && !parts->name->offset &&
		!parts->name->is_negated)
		return true;
	ptx_tr_fail(tr, -EINVAL, "an invalid call");
	return false;
}

static void emit_builtin(struct ptx_tr *tr, const struct builtin *builtin, struct ptx_call *call)
{
	struct ptx_insn *in;

	if (call->n_args != builtin->n_args || call->n_results > builtin->n_results) {
		ptx_tr_fail(tr, -EINVAL, "a call of '%s' with other arguments", builtin->name);
		return;
	}
	for (uint32_t i = 0; i < call->n_args && !tr->log->error; i++)
		if (call->args[i].size != builtin->sizes[i])
			ptx_tr_fail(
				tr, -EINVAL, "a call of '%s' with other arguments", builtin->name);
	if (call->n_results && call->results[0].size != builtin->result_size)
		ptx_tr_fail(tr, -EINVAL, "a call of '%s' with another result", builtin->name);
	in = ptx_tr_emit(tr, builtin->exec);
	in->call = call;
	tr->code->has_open_stack = true;
}

/* Frames begin at the end of the caller's frame, whose size is known only at its end. */
static void emit_call(struct ptx_tr *tr, struct ptx_call *call)
{
	struct ptx_insn *in = ptx_tr_emit_call(tr);

	in->call = call;
	in->flags = PTX_INSN_PARTS;
	call->next = tr->calls;
	tr->calls = call;
}

static bool is_same(const struct ptx_place *places, struct ptx_symbol **symbols, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (places[i].size != symbols[i]->size)
			return false;
	return true;
}

/* Whether the call has the arguments and results of a function or prototype. */
static bool matches(const struct ptx_call *call, const struct ptx_function *function)
{
	return call->n_args == function->n_params && call->n_results == function->n_results &&
	       is_same(call->args, function->params, call->n_args) &&
	       is_same(call->results, function->results, call->n_results);
}

static void direct_call(
	struct ptx_tr *tr, struct ptx_call *call, const struct ptx_function *function)
{
	const struct builtin *builtin = NULL;

	if (!function->has_body)
		builtin = builtin_find(function->symbol->name);
	if (builtin) {
		emit_builtin(tr, builtin, call);
		return;
	}
	if (!function->has_body || function->is_entry) {
		ptx_tr_fail(tr, -ENOTSUP, "unknown function '%s'", function->symbol->name);
		return;
	}
	if (!matches(call, function)) {
		ptx_tr_fail(
			tr, -EINVAL, "a call of '%s' with other arguments", function->symbol->name);
		return;
	}
	call->callee = &tr->module->codes[function->index];
	emit_call(tr, call);
}

static void indirect_call(struct ptx_tr *tr, struct ptx_call *call, const struct call_parts *parts,
	const struct ptx_function *prototype)
{
	if (prototype && !matches(call, prototype)) {
		ptx_tr_fail(tr, -EINVAL, "a call with other arguments than '%s'",
			parts->prototype->name);
		return;
	}
	call->address = ptx_tr_source(tr, parts->name, PTX_B64);
	tr->code->has_open_stack = true;
	emit_call(tr, call);
}

/*
 * What the program says about the called function: the function itself if it is named,
 * otherwise the prototype. NULL: nothing, or nothing valid.
 */
static const struct ptx_function *signature_of(
	struct ptx_tr *tr, const struct ptx_symbol *named, const struct call_parts *parts)
{
	const struct ptx_symbol *prototype;
	uint32_t index;

	if (named && named->kind == PTX_SYMBOL_FUNC)
		return named->function;
	prototype = parts->prototype ? ptx_tr_symbol(tr, parts->prototype->name, &index) : NULL;
	if (prototype && prototype->kind == PTX_SYMBOL_PROTOTYPE)
		return prototype->function;
	ptx_tr_fail(tr, -EINVAL, "a call by address without a prototype");
	return NULL;
}

void ptx_translate_call(struct ptx_tr *tr)
{
	const struct ptx_function *signature;
	struct call_parts parts;
	struct ptx_symbol *symbol, **params = NULL;
	struct ptx_call *call;
	uint32_t index;

	ptx_tr_take(tr, "uni");
	if (!split_call(tr, &parts))
		return;
	call = ptx_arena_alloc(&tr->module->arena, sizeof(*call));
	if (!call) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return;
	}
	call->n_args = parts.args->n_items;
	call->n_results = parts.results->n_items;
	symbol = ptx_tr_symbol(tr, parts.name->name, &index);
	signature = signature_of(tr, symbol, &parts);
	if (signature && signature->n_params == call->n_args)
		params = signature->params;
	call->args = place_list(tr, parts.args, call->n_args, params);
	call->results = place_list(tr, parts.results, call->n_results, NULL);
	for (uint32_t i = 0; !tr->log->error && i < call->n_results; i++)
		if (call->results[i].is_row && call->results[i].row < 0)
			ptx_tr_bad_operand(tr, 0);
	if (tr->log->error)
		return;
	if (symbol && symbol->kind == PTX_SYMBOL_FUNC)
		direct_call(tr, call, symbol->function);
	else
		indirect_call(tr, call, &parts, signature);
}
