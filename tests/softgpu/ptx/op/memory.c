/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads, stores and their hints. Runs on the thread that runs the kernel. An aligned
 * access is a single access of the host, because other kernels and the host may use
 * the same memory.
 */

#include "tests/softgpu/ptx/memory.h"

#include <string.h>

#include "base.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

#define VECTOR_MAX 8u
#define VECTOR_SIZE_MAX 32u

/* T is read and widened through WIDE. */
#define LOAD(route, name, T, WIDE)                                                                 \
	PTX_EXEC(ld_##route##_##name)                                                              \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_DEST(d);                                                                       \
		for (uint32_t left = warp->mask; left; left &= left - 1) {                         \
			unsigned l = (unsigned)__builtin_ctz(left);                                \
			uint64_t addr = a[l].u64 + (uint64_t)in->imm;                              \
			const T *p = ptx_at_##route(warp, l, addr, sizeof(T), false);              \
			if (!p)                                                                    \
				return NULL;                                                       \
			d[l].u64 = (uint64_t)(WIDE)__atomic_load_n(p, __ATOMIC_RELAXED);           \
		}                                                                                  \
		return in + 1;                                                                     \
	}

/* NOLINTBEGIN(bugprone-macro-parentheses): the type of a declaration takes none. */
#define STORE(route, name, T)                                                                      \
	PTX_EXEC(st_##route##_##name)                                                              \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		for (uint32_t left = warp->mask; left; left &= left - 1) {                         \
			unsigned l = (unsigned)__builtin_ctz(left);                                \
			uint64_t addr = a[l].u64 + (uint64_t)in->imm;                              \
			T *p = ptx_at_##route(warp, l, addr, sizeof(T), true);                     \
			if (!p)                                                                    \
				return NULL;                                                       \
			__atomic_store_n(p, (T)b[l].u64, __ATOMIC_RELAXED);                        \
		}                                                                                  \
		return in + 1;                                                                     \
	}

/* NOLINTEND(bugprone-macro-parentheses) */

/* How a load widens: with zeros, or with the sign to 32 or 64 bits. */
enum widening {
	WIDEN_ZERO,
	WIDEN_SIGN_32,
	WIDEN_SIGN_64,
	WIDENINGS,
};

#define ROUTE(route)                                                                               \
	LOAD(route, u8, uint8_t, uint64_t)                                                         \
	LOAD(route, u16, uint16_t, uint64_t)                                                       \
	LOAD(route, u32, uint32_t, uint64_t)                                                       \
	LOAD(route, u64, uint64_t, uint64_t)                                                       \
	LOAD(route, s8_32, int8_t, uint32_t)                                                       \
	LOAD(route, s16_32, int16_t, uint32_t)                                                     \
	LOAD(route, s8_64, int8_t, int64_t)                                                        \
	LOAD(route, s16_64, int16_t, int64_t)                                                      \
	LOAD(route, s32_64, int32_t, int64_t)                                                      \
	STORE(route, 8, uint8_t)                                                                   \
	STORE(route, 16, uint16_t)                                                                 \
	STORE(route, 32, uint32_t)                                                                 \
	STORE(route, 64, uint64_t)

ROUTE(global)
ROUTE(shared)
ROUTE(local)
ROUTE(frame)
ROUTE(param)
ROUTE(generic)

/* Indexed by widening and the logarithm of the size. */
#define LOADS(route)                                                                               \
	{                                                                                          \
		{ld_##route##_u8, ld_##route##_u16, ld_##route##_u32, ld_##route##_u64},           \
			{ld_##route##_s8_32, ld_##route##_s16_32, ld_##route##_u32,                \
				ld_##route##_u64},                                                 \
			{ld_##route##_s8_64, ld_##route##_s16_64, ld_##route##_s32_64,             \
				ld_##route##_u64},                                                 \
	}
static ptx_exec_fn *const loads[PTX_ROUTES][WIDENINGS][4] = {
	[PTX_ROUTE_GLOBAL] = LOADS(global),
	[PTX_ROUTE_SHARED] = LOADS(shared),
	[PTX_ROUTE_LOCAL] = LOADS(local),
	[PTX_ROUTE_FRAME] = LOADS(frame),
	[PTX_ROUTE_PARAM] = LOADS(param),
	[PTX_ROUTE_GENERIC] = LOADS(generic),
};

#define STORES(route)                                                                              \
	{                                                                                          \
		st_##route##_8, st_##route##_16, st_##route##_32, st_##route##_64                  \
	}
static ptx_exec_fn *const stores[PTX_ROUTES][4] = {
	[PTX_ROUTE_GLOBAL] = STORES(global),
	[PTX_ROUTE_SHARED] = STORES(shared),
	[PTX_ROUTE_LOCAL] = STORES(local),
	[PTX_ROUTE_FRAME] = STORES(frame),
	[PTX_ROUTE_PARAM] = STORES(param),
	[PTX_ROUTE_GENERIC] = STORES(generic),
};

static uint64_t widen(uint64_t value, uint32_t size, enum widening widening)
{
	unsigned shift = 64 - size * 8;

	if (widening == WIDEN_ZERO)
		return value;
	value = (uint64_t)((int64_t)(value << shift) >> shift);
	return widening == WIDEN_SIGN_32 ? (uint32_t)value : value;
}

/* extra is the route, flags the widening of each element, two bits each. */
PTX_EXEC(ld_vector)
{
	const struct ptx_vector *vector = in->vector;
	uint32_t size = vector->element_size;
	PTX_SOURCE(a);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint64_t addr = a[l].u64 + (uint64_t)vector->offset;
		const uint8_t *p =
			ptx_at(warp, (enum ptx_route)in->extra, l, addr, size * vector->n, false);
		uint8_t bytes[VECTOR_SIZE_MAX];

		if (!p)
			return NULL;
		memcpy(bytes, p, (size_t)size * vector->n);
		for (uint32_t i = 0; i < vector->n; i++) {
			uint64_t value = 0;

			memcpy(&value, bytes + (size_t)i * size, size);
			r[vector->rows[i]].v[l].u64 =
				widen(value, size, (enum widening)(in->flags >> (2 * i) & 3));
		}
	}
	return in + 1;
}

PTX_EXEC(st_vector)
{
	const struct ptx_vector *vector = in->vector;
	uint32_t size = vector->element_size;
	PTX_SOURCE(a);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint64_t addr = a[l].u64 + (uint64_t)vector->offset;
		uint8_t *p =
			ptx_at(warp, (enum ptx_route)in->extra, l, addr, size * vector->n, true);

		if (!p)
			return NULL;
		for (uint32_t i = 0; i < vector->n; i++)
			memcpy(p + (size_t)i * size,
				&ptx_source(warp, r, vector->rows[i])->v[l].u64, size);
	}
	return in + 1;
}

static unsigned size_index(uint32_t size)
{
	return (unsigned)__builtin_ctz(size);
}

static enum widening widening_of(enum ptx_type type, uint32_t dest_size)
{
	if (!ptx_type_is_signed(type) || dest_size == ptx_type_size(type))
		return WIDEN_ZERO;
	return dest_size == 8 ? WIDEN_SIGN_64 : WIDEN_SIGN_32;
}

static uint32_t take_vector(struct ptx_tr *tr)
{
	static const char *const names[] = {"v2", "v4", "v8", NULL};
	int i = ptx_tr_take_one(tr, names);

	return i < 0 ? 1 : 2u << i;
}

struct access {
	enum ptx_space space;
	enum ptx_type type;
	uint32_t n;
	bool is_ordered;
};

/* A cache policy is an additional operand, and only a hint. */
static bool has_policy(const struct ptx_tr *tr)
{
	for (uint32_t i = 0; i < tr->n_modifiers; i++)
		if (!strcmp(tr->modifiers[i], "L2::cache_hint"))
			return true;
	return false;
}

/* The modifiers that loads and stores share. */
static bool take_access(struct ptx_tr *tr, struct access *access)
{
	access->space = ptx_tr_take_space(tr);
	access->is_ordered = ptx_tr_is_ordered(tr);
	ptx_tr_take_hints(tr);
	access->n = take_vector(tr);
	access->type = ptx_tr_take_type(tr);
	if (access->type == PTX_NONE || access->type == PTX_PRED ||
		ptx_type_size(access->type) > 8 ||
		ptx_type_size(access->type) * access->n > VECTOR_SIZE_MAX) {
		ptx_tr_refuse(tr);
		return false;
	}
	return ptx_tr_count(tr, has_policy(tr) ? 3 : 2);
}

static struct ptx_vector *vector_new(
	struct ptx_tr *tr, const struct access *access, const struct ptx_operand *list)
{
	struct ptx_vector *vector;

	if (list->kind != PTX_OPERAND_VECTOR || list->n_items != access->n) {
		ptx_tr_fail(tr, -EINVAL, "'%s' wants a vector of %u", tr->stmt->opcode, access->n);
		return NULL;
	}
	vector = ptx_arena_alloc(
		&tr->module->arena, sizeof(*vector) + access->n * sizeof(vector->rows[0]));
	if (!vector) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return NULL;
	}
	vector->n = access->n;
	vector->element_size = ptx_type_size(access->type);
	return vector;
}

static void emit_vector(struct ptx_tr *tr, ptx_exec_fn *exec, struct ptx_vector *vector,
	struct ptx_address address, uint32_t flags)
{
	struct ptx_insn *in = ptx_tr_emit(tr, exec);

	vector->offset = address.offset;
	in->a = address.base;
	in->vector = vector;
	in->extra = address.route;
	in->flags = flags;
}

static void load_vector(struct ptx_tr *tr, const struct access *access, struct ptx_address address)
{
	const struct ptx_operand *list = ptx_tr_operand(tr, 0);
	struct ptx_vector *vector = vector_new(tr, access, list);
	uint32_t flags = 0;

	if (!vector)
		return;
	for (uint32_t i = 0; i < access->n; i++) {
		uint32_t size;

		vector->rows[i] = ptx_tr_dest_wide(tr, &list->items[i], access->type, &size);
		flags |= (uint32_t)widening_of(access->type, size) << (2 * i);
	}
	emit_vector(tr, ld_vector, vector, address, flags);
}

static void translate_ld(struct ptx_tr *tr)
{
	struct ptx_address address;
	struct access access;
	uint32_t size, dest_size;
	struct ptx_insn *in;
	int32_t dest;

	if (!take_access(tr, &access))
		return;
	size = ptx_type_size(access.type);
	address = ptx_tr_memory(tr, 1, access.space, size * access.n);
	if (access.n > 1) {
		load_vector(tr, &access, address);
	} else {
		dest = ptx_tr_dest_wide(tr, ptx_tr_operand(tr, 0), access.type, &dest_size);
		in = ptx_tr_emit(tr, loads[address.route][widening_of(access.type, dest_size)]
					  [size_index(size)]);
		in->d = dest;
		in->a = address.base;
		in->imm = address.offset;
	}
	if (access.is_ordered)
		ptx_tr_emit_fence(tr);
}

static void store_vector(struct ptx_tr *tr, const struct access *access, struct ptx_address address)
{
	const struct ptx_operand *list = ptx_tr_operand(tr, 1);
	struct ptx_vector *vector = vector_new(tr, access, list);

	if (!vector)
		return;
	for (uint32_t i = 0; i < access->n; i++)
		vector->rows[i] = ptx_tr_source_wide(tr, &list->items[i], access->type);
	emit_vector(tr, st_vector, vector, address, 0);
}

static void translate_st(struct ptx_tr *tr)
{
	struct ptx_address address;
	struct access access;
	struct ptx_insn *in;
	int32_t source;
	uint32_t size;

	if (!take_access(tr, &access))
		return;
	size = ptx_type_size(access.type);
	if (access.space == PTX_SPACE_CONST)
		ptx_tr_refuse(tr);
	if (access.is_ordered)
		ptx_tr_emit_fence(tr);
	address = ptx_tr_memory(tr, 0, access.space, size * access.n);
	if (access.n > 1) {
		store_vector(tr, &access, address);
		return;
	}
	source = ptx_tr_source_wide(tr, ptx_tr_operand(tr, 1), access.type);
	in = ptx_tr_emit(tr, stores[address.route][size_index(size)]);
	in->a = address.base;
	in->b = source;
	in->imm = address.offset;
}

static void translate_fence(struct ptx_tr *tr)
{
	static const char *const kinds[] = {"cta", "gl", "sys", "gpu", "cluster", "proxy", "alias",
		"async", "async::generic", "async.global", "async.shared::cta", "global",
		"shared::cta", "mbarrier_init", NULL};

	ptx_tr_take_hints(tr);
	while (ptx_tr_take_one(tr, kinds) >= 0)
		continue;
	if (ptx_tr_count(tr, 0))
		ptx_tr_emit_fence(tr);
}

/* Hints: nothing is prefetched, and discarded memory keeps its contents. */
static void translate_hint(struct ptx_tr *tr)
{
	static const char *const levels[] = {"L1", "L2", "tensormap", NULL};

	ptx_tr_take_space(tr);
	ptx_tr_take_hints(tr);
	ptx_tr_take_one(tr, levels);
}

PTX_EXEC(exec_policy)
{
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = 0;);
	return in + 1;
}

static void translate_policy(struct ptx_tr *tr)
{
	int32_t dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B64);

	for (uint32_t i = 0; i < tr->n_modifiers; i++)
		tr->taken[i] = true;
	ptx_tr_emit(tr, exec_policy)->d = dest;
}

static const struct ptx_family families[] = {
	{"createpolicy", translate_policy},
	{"ld", translate_ld},
	{"ldu", translate_ld},
	{"st", translate_st},
	{"membar", translate_fence},
	{"fence", translate_fence},
	{"prefetch", translate_hint},
	{"prefetchu", translate_hint},
	{"applypriority", translate_hint},
	{"discard", translate_hint},
};

const struct ptx_family_table ptx_memory_families = {families, ARRAY_SIZE(families)};
