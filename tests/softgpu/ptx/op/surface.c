/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Instructions on surfaces: suld and sust of raw bytes, suq. Runs on the thread that
 * runs the kernel. Formatted stores, reductions and surfaces by name are refused when
 * a module is loaded.
 */

#include <string.h>

#include "base.h"
#include "tests/softgpu/ptx/texture.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

#define VALUES_MAX 4
#define COORDINATES_MAX 4

/* The result of an access outside. */
enum outside {
	OUTSIDE_TRAP,
	OUTSIDE_CLAMP,
	OUTSIDE_ZERO, /* reads zeros, and writes nothing */
};

static const struct geometry {
	const char *name;
	uint32_t n;
	bool is_layered;
} geometries[] = {
	{"1d", 1, false}, {"2d", 2, false}, {"3d", 3, false}, {"a1d", 1, true}, {"a2d", 2, true}};

static const struct ptx_texture *find(struct ptx_warp *warp, uint64_t handle)
{
	const struct ptx_launch *launch = warp->run->launch;
	const struct ptx_texture *surface =
		launch->texture ? launch->texture(launch->user, handle, true) : NULL;

	if (!surface)
		ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, handle, false);
	return surface;
}

/* The address of the bytes; false: the run has a fault. NULL: outside, which is allowed. */
static bool locate(struct ptx_warp *warp, struct ptx_row *r, const struct ptx_insn *in, unsigned l,
	uint64_t handle, uint8_t **ret_bytes)
{
	const struct geometry *geometry = &geometries[in->extra];
	const struct ptx_vector *vector = in->vector;
	const struct ptx_texture *surface = find(warp, handle);
	const struct ptx_level *level = surface ? &surface->levels[0] : NULL;
	const int32_t *rows = vector->rows + VALUES_MAX;
	int64_t size = (int64_t)vector->element_size * vector->n, at[3] = {0};

	if (!level)
		return false;
	if (geometry->is_layered)
		at[2] = ptx_source(warp, r, *rows++)->v[l].s32;
	for (uint32_t i = 0; i < geometry->n; i++)
		at[i] = ptx_source(warp, r, rows[i])->v[l].s32;
	if (at[0] % size != 0) {
		ptx_run_fault(warp->run, PTX_FAULT_MISALIGNED, (uint64_t)at[0], false);
		return false;
	}
	for (unsigned i = 0; i < 3; i++) {
		int64_t n = (int64_t)level->size[i] * (i == 0 ? surface->size : 1);
		int64_t last = i == 0 ? n - size : n - 1;

		if (at[i] >= 0 && at[i] <= last)
			continue;
		*ret_bytes = NULL;
		if (in->flags == OUTSIDE_TRAP)
			ptx_run_fault(warp->run, PTX_FAULT_TRAP, handle, false);
		if (in->flags != OUTSIDE_CLAMP)
			return in->flags == OUTSIDE_ZERO;
		at[i] = MIN(MAX(at[i], 0), last);
	}
	*ret_bytes = level->bytes + (size_t)at[2] * level->slice + (size_t)at[1] * level->pitch +
		     (size_t)at[0];
	return true;
}

PTX_EXEC(exec_suld)
{
	const struct ptx_vector *vector = in->vector;
	PTX_SOURCE(a);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint8_t *bytes;

		if (!locate(warp, r, in, l, a[l].u64, &bytes))
			return NULL;
		for (uint32_t i = 0; i < vector->n; i++) {
			uint64_t value = 0;

			if (bytes)
				memcpy(&value, bytes + (size_t)i * vector->element_size,
					vector->element_size);
			r[vector->rows[i]].v[l].u64 = value;
		}
	}
	return in + 1;
}

PTX_EXEC(exec_sust)
{
	const struct ptx_vector *vector = in->vector;
	PTX_SOURCE(a);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint8_t *bytes;

		if (!locate(warp, r, in, l, a[l].u64, &bytes))
			return NULL;
		for (uint32_t i = 0; i < vector->n && bytes; i++)
			memcpy(bytes + (size_t)i * vector->element_size,
				&ptx_source(warp, r, vector->rows[i])->v[l].u64,
				vector->element_size);
	}
	return in + 1;
}

PTX_EXEC(exec_suq)
{
	PTX_SOURCE(a);
	PTX_DEST(d);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		const struct ptx_texture *surface = find(warp, a[l].u64);

		if (!surface)
			return NULL;
		d[l].u64 = surface->levels[0].size[MIN(in->extra, 2u)];
	}
	return in + 1;
}

struct access {
	uint32_t geometry, n;
	enum outside outside;
	enum ptx_type type;
};

static bool take_access(struct ptx_tr *tr, struct access *access)
{
	static const char *const vectors[] = {"v2", "v4", NULL};
	static const char *const outsides[] = {"trap", "clamp", "zero", NULL};
	static const char *const names[] = {"1d", "2d", "3d", "a1d", "a2d", NULL};
	bool is_bytes = ptx_tr_take(tr, "b");
	int geometry = ptx_tr_take_one(tr, names), vector = ptx_tr_take_one(tr, vectors);
	int outside = ptx_tr_take_one(tr, outsides);

	ptx_tr_take_hints(tr);
	access->type = ptx_tr_take_type(tr);
	if (!is_bytes || geometry < 0 || outside < 0 ||
		(access->type != PTX_B8 && access->type != PTX_B16 && access->type != PTX_B32 &&
			access->type != PTX_B64)) {
		ptx_tr_refuse(tr);
		return false;
	}
	access->geometry = (uint32_t)geometry;
	access->n = vector < 0 ? 1 : 2u << vector;
	access->outside = (enum outside)outside;
	return ptx_tr_count(tr, 2);
}

/* {v} or v, {x, y} or x. */
static const struct ptx_operand *items_of(const struct ptx_operand *operand, uint32_t *ret_n)
{
	if (operand->kind != PTX_OPERAND_VECTOR) {
		*ret_n = 1;
		return operand;
	}
	*ret_n = operand->n_items;
	return operand->items;
}

static void translate_access(struct ptx_tr *tr, bool is_load)
{
	const struct ptx_operand *values, *place, *coordinates;
	struct access access;
	struct ptx_vector *vector;
	struct ptx_insn *in;
	uint32_t n_values, n, wanted, size;
	int32_t handle;

	if (!take_access(tr, &access))
		return;
	values = items_of(ptx_tr_operand(tr, is_load ? 0 : 1), &n_values);
	place = ptx_tr_operand(tr, is_load ? 1 : 0);
	wanted = geometries[access.geometry].n + geometries[access.geometry].is_layered;
	if (place->kind != PTX_OPERAND_ADDRESS || place->n_items != 2 || n_values != access.n) {
		ptx_tr_bad_operand(tr, is_load ? 1 : 0);
		return;
	}
	coordinates = items_of(&place->items[1], &n);
	vector = ptx_arena_alloc(&tr->module->arena,
		sizeof(*vector) + (VALUES_MAX + COORDINATES_MAX) * sizeof(vector->rows[0]));
	if (!vector || n < wanted) {
		ptx_tr_bad_operand(tr, is_load ? 1 : 0);
		return;
	}
	vector->n = access.n;
	vector->element_size = ptx_type_size(access.type);
	for (uint32_t i = 0; i < access.n; i++)
		vector->rows[i] = is_load ? ptx_tr_dest_wide(tr, &values[i], access.type, &size)
					  : ptx_tr_source_wide(tr, &values[i], access.type);
	for (uint32_t i = 0; i < wanted; i++)
		vector->rows[VALUES_MAX + i] = ptx_tr_source(tr, &coordinates[i], PTX_B32);
	handle = ptx_tr_source(tr, &place->items[0], PTX_B64);
	in = ptx_tr_emit(tr, is_load ? exec_suld : exec_sust);
	in->a = handle;
	in->vector = vector;
	in->extra = access.geometry;
	in->flags = access.outside;
}

static void translate_suld(struct ptx_tr *tr)
{
	translate_access(tr, true);
}

static void translate_sust(struct ptx_tr *tr)
{
	translate_access(tr, false);
}

static void translate_suq(struct ptx_tr *tr)
{
	static const char *const names[] = {"width", "height", "depth", "array_size", NULL};
	int query = ptx_tr_take_one(tr, names);
	const struct ptx_operand *operand;
	struct ptx_insn *in;
	int32_t dest, handle;

	if (query < 0 || !ptx_tr_take(tr, "b32")) {
		ptx_tr_refuse(tr);
		return;
	}
	if (!ptx_tr_count(tr, 2))
		return;
	operand = ptx_tr_operand(tr, 1);
	if (operand->kind != PTX_OPERAND_ADDRESS || operand->n_items != 1) {
		ptx_tr_bad_operand(tr, 1);
		return;
	}
	handle = ptx_tr_source(tr, &operand->items[0], PTX_B64);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B32);
	in = ptx_tr_emit(tr, exec_suq);
	in->d = dest;
	in->a = handle;
	in->extra = (uint32_t)query;
}

static const struct ptx_family families[] = {
	{"suld", translate_suld},
	{"sust", translate_sust},
	{"suq", translate_suq},
};

const struct ptx_family_table ptx_surface_families = {families, ARRAY_SIZE(families)};
