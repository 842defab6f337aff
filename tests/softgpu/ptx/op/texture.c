/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Instructions on textures: tex, tld4, txq. Runs on the thread that runs the
 * kernel. Textures by name, cubes, gradients, offsets, comparisons and sparse
 * textures are refused when a module is loaded.
 */

#include "tests/softgpu/ptx/texture.h"

#include <string.h>

#include "base.h"
#include "tests/softgpu/ptx/memory.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

#define RESULTS 4
#define COORDINATES_MAX 4

/* Bits of ptx_insn.flags. */
enum {
	TEXTURE_TEXEL = 1 << 0, /* coordinates are integers */
	TEXTURE_LEVEL = 1 << 1, /* b is a level */
};

/* 1d, 2d, 3d, a1d, a2d: the number of directions, and whether the first coordinate is a layer. */
static const struct geometry {
	const char *name;
	uint32_t n;
	bool is_layered;
} geometries[] = {
	{"1d", 1, false}, {"2d", 2, false}, {"3d", 3, false}, {"a1d", 1, true}, {"a2d", 2, true}};

static const struct ptx_texture *find(struct ptx_warp *warp, uint64_t handle)
{
	const struct ptx_launch *launch = warp->run->launch;
	const struct ptx_texture *texture =
		launch->texture ? launch->texture(launch->user, handle, false) : NULL;

	if (!texture)
		ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, handle, false);
	return texture;
}

/* The rows of the vector: results, then coordinates. */
static struct ptx_point point_of(
	struct ptx_warp *warp, struct ptx_row *r, const struct ptx_insn *in, unsigned l)
{
	const struct geometry *geometry = &geometries[in->extra];
	const int32_t *rows = in->vector->rows + RESULTS;
	struct ptx_point point = {
		.n = geometry->n, .layer = -1, .is_texel = in->flags & TEXTURE_TEXEL};

	if (geometry->is_layered) {
		point.layer = ptx_source(warp, r, *rows++)->v[l].s32;
		point.layer = MAX(point.layer, 0);
	}
	for (uint32_t i = 0; i < geometry->n; i++) {
		const union ptx_reg *reg = &ptx_source(warp, r, rows[i])->v[l];

		if (point.is_texel)
			point.texel[i] = reg->s32;
		else
			point.at[i] = reg->f32;
	}
	return point;
}

static void give(struct ptx_row *r, const struct ptx_insn *in, unsigned l, union ptx_texel texel)
{
	for (unsigned i = 0; i < RESULTS; i++)
		r[in->vector->rows[i]].v[l].u64 = texel.u32[i];
}

/* The program may give a line a length beyond its memory; reading there is a fault. */
static bool is_there(struct ptx_warp *warp, unsigned l, const struct ptx_texture *texture,
	const struct ptx_point *point)
{
	uint64_t at = (uint64_t)(uintptr_t)texture->levels[0].bytes;
	int32_t i = point->texel[0];

	if (!texture->is_memory || !point->is_texel || i < 0 ||
		(uint32_t)i >= texture->levels[0].size[0])
		return true;
	return ptx_at_global(warp, l, at + (uint64_t)i * texture->size, 1, false) != NULL;
}

PTX_EXEC(exec_tex)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		const struct ptx_texture *texture = find(warp, a[l].u64);
		struct ptx_point point = point_of(warp, r, in, l);

		if (!texture || !is_there(warp, l, texture, &point))
			return NULL;
		give(r, in, l,
			ptx_texture_sample(
				texture, &point, in->flags & TEXTURE_LEVEL ? b[l].f32 : 0));
	}
	return in + 1;
}

/* d: the channel. */
PTX_EXEC(exec_tld4)
{
	PTX_SOURCE(a);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		const struct ptx_texture *texture = find(warp, a[l].u64);
		struct ptx_point point = point_of(warp, r, in, l);

		if (!texture)
			return NULL;
		give(r, in, l, ptx_texture_gather(texture, &point, (uint32_t)in->d));
	}
	return in + 1;
}

enum query {
	QUERY_WIDTH,
	QUERY_HEIGHT,
	QUERY_DEPTH,
	QUERY_LAYERS,
	QUERY_LEVELS,
};

PTX_EXEC(exec_txq)
{
	PTX_SOURCE(a);
	PTX_DEST(d);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		const struct ptx_texture *texture = find(warp, a[l].u64);

		if (!texture)
			return NULL;
		d[l].u64 = in->extra == QUERY_LEVELS ? texture->n_levels
						     : texture->levels[0].size[MIN(in->extra, 2u)];
	}
	return in + 1;
}

/* [a, {x, y}], or [a, x]. */
static const struct ptx_operand *take_coordinates(
	struct ptx_tr *tr, uint32_t i, int32_t *ret_handle, uint32_t *ret_n)
{
	const struct ptx_operand *operand = ptx_tr_operand(tr, i), *list;

	*ret_n = 0;
	if (operand->kind != PTX_OPERAND_ADDRESS || operand->n_items != 2) {
		ptx_tr_bad_operand(tr, i);
		return NULL;
	}
	*ret_handle = ptx_tr_source(tr, &operand->items[0], PTX_B64);
	list = &operand->items[1];
	if (list->kind != PTX_OPERAND_VECTOR) {
		*ret_n = 1;
		return list;
	}
	*ret_n = list->n_items;
	return list->items;
}

static struct ptx_vector *take_rows(struct ptx_tr *tr, uint32_t geometry, bool is_texel,
	enum ptx_type type, int32_t *ret_handle)
{
	const struct ptx_operand *results = ptx_tr_operand(tr, 0), *coordinates;
	uint32_t n, wanted = geometries[geometry].n + geometries[geometry].is_layered;
	struct ptx_vector *vector = ptx_arena_alloc(&tr->module->arena,
		sizeof(*vector) + (RESULTS + COORDINATES_MAX) * sizeof(vector->rows[0]));

	coordinates = take_coordinates(tr, 1, ret_handle, &n);
	if (!vector || !coordinates)
		return NULL;
	if (results->kind != PTX_OPERAND_VECTOR || results->n_items != RESULTS || n < wanted) {
		ptx_tr_bad_operand(tr, results->kind != PTX_OPERAND_VECTOR ? 0 : 1);
		return NULL;
	}
	for (uint32_t i = 0; i < RESULTS; i++)
		vector->rows[i] = ptx_tr_dest(tr, &results->items[i], type);
	for (uint32_t i = 0; i < wanted; i++) {
		bool is_layer = i == 0 && geometries[geometry].is_layered;

		vector->rows[RESULTS + i] = ptx_tr_source(
			tr, &coordinates[i], is_layer || is_texel ? PTX_B32 : PTX_F32);
	}
	return vector;
}

static int take_geometry(struct ptx_tr *tr)
{
	for (unsigned i = 0; i < ARRAY_SIZE(geometries); i++)
		if (ptx_tr_take(tr, geometries[i].name))
			return (int)i;
	return -1;
}

/* Shared by tex and tld4; for tld4, in->d is the channel. */
static void translate_sample(
	struct ptx_tr *tr, ptx_exec_fn *exec, bool has_level, uint32_t n_operands)
{
	int geometry = take_geometry(tr);
	bool is_vector = ptx_tr_take(tr, "v4");
	enum ptx_type type = ptx_tr_take_type(tr), at = ptx_tr_take_type(tr);
	struct ptx_vector *vector;
	struct ptx_insn *in;
	int32_t handle = 0, level = 0;

	if (geometry < 0 || !is_vector || (at != PTX_F32 && at != PTX_S32) ||
		(type != PTX_F32 && type != PTX_U32 && type != PTX_S32)) {
		ptx_tr_refuse(tr);
		return;
	}
	if (!ptx_tr_count(tr, n_operands))
		return;
	vector = take_rows(tr, (uint32_t)geometry, at == PTX_S32, type, &handle);
	if (!vector)
		return;
	if (has_level)
		level = ptx_tr_source(tr, ptx_tr_operand(tr, 2), PTX_F32);
	in = ptx_tr_emit(tr, exec);
	in->a = handle;
	in->b = level;
	in->vector = vector;
	in->extra = (uint32_t)geometry;
	in->flags = (at == PTX_S32 ? TEXTURE_TEXEL : 0u) | (has_level ? TEXTURE_LEVEL : 0u);
}

static void translate_tex(struct ptx_tr *tr)
{
	bool has_level = ptx_tr_take(tr, "level");

	if (ptx_tr_take(tr, "grad")) {
		ptx_tr_refuse(tr);
		return;
	}
	translate_sample(tr, exec_tex, has_level, has_level ? 3 : 2);
}

static void translate_tld4(struct ptx_tr *tr)
{
	static const char *const channels[] = {"r", "g", "b", "a", NULL};
	int channel = ptx_tr_take_one(tr, channels);
	uint32_t at = tr->n_insns;

	translate_sample(tr, exec_tld4, false, 2);
	if (channel < 0)
		ptx_tr_refuse(tr);
	if (tr->log->error)
		return;
	while (tr->insns[at].exec != exec_tld4)
		at++;
	if (geometries[tr->insns[at].extra].n != 2 || tr->insns[at].flags & TEXTURE_TEXEL)
		ptx_tr_refuse(tr);
	tr->insns[at].d = channel;
}

static void translate_txq(struct ptx_tr *tr)
{
	static const char *const names[] = {
		"width", "height", "depth", "array_size", "num_mipmap_levels", NULL};
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
	in = ptx_tr_emit(tr, exec_txq);
	in->d = dest;
	in->a = handle;
	in->extra = (uint32_t)query;
}

static const struct ptx_family families[] = {
	{"tex", translate_tex},
	{"tld4", translate_tld4},
	{"txq", translate_txq},
};

const struct ptx_family_table ptx_texture_families = {families, ARRAY_SIZE(families)};
