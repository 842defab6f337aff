/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Products of matrices in registers of a warp: mma and wmma of doubles. Runs on the thread
 * that runs the kernel. All lanes of the warp are at the instruction, as .aligned says.
 *
 * The lane l has the rows l / 4 and the columns l % 4 of each piece of a matrix; the
 * manual of PTX defines the pieces of mma. It leaves those of wmma open: here they are the
 * same.
 */

#include <math.h>

#include "base.h"
#include "tests/softgpu/ptx/float.h"
#include "tests/softgpu/ptx/memory.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

#define N 8u       /* columns of the result */
#define K_PIECE 4u /* columns of a piece of A */
#define M_PIECE 8u /* rows of a piece of A and of the result */

/* The rows of in->vector: results, pieces of A, pieces of B, addends. */
struct shape {
	uint32_t m, k;
};

static uint32_t n_results(const struct shape *shape)
{
	return shape->m / M_PIECE * 2;
}

static uint32_t n_of_a(const struct shape *shape)
{
	return shape->m / M_PIECE * (shape->k / K_PIECE);
}

static uint32_t n_of_b(const struct shape *shape)
{
	return shape->k / K_PIECE;
}

static double value_at(
	const struct ptx_warp *warp, const struct ptx_row *r, int32_t row, uint32_t lane)
{
	return ptx_source(warp, r, row)->v[lane].f64;
}

/* One element of the result, added up in the order of k. */
static double element(const struct ptx_warp *warp, const struct ptx_row *r,
	const struct ptx_insn *in, const struct shape *shape, uint32_t row, uint32_t column)
{
	const int32_t *a = in->vector->rows + n_results(shape);
	const int32_t *b = a + n_of_a(shape);
	const int32_t *c = b + n_of_b(shape);
	const uint32_t half = row / M_PIECE, halves = shape->m / M_PIECE;
	double sum = value_at(warp, r, c[half * 2 + column % 2], row % M_PIECE * 4 + column / 2);

	for (uint32_t k = 0; k < shape->k; k++)
		sum = fma(value_at(warp, r, a[k / K_PIECE * halves + half],
				  row % M_PIECE * 4 + k % K_PIECE),
			value_at(warp, r, b[k / K_PIECE], column * 4 + k % K_PIECE), sum);
	return sum;
}

PTX_EXEC(exec_mma)
{
	const struct shape shape = {in->flags & 0xff, in->extra};
	int saved = ptx_rounding_enter((enum ptx_rounding)in->e);
	double out[16 * N];

	for (uint32_t i = 0; i < shape.m * N; i++)
		out[i] = element(warp, r, in, &shape, i / N, i % N);
	ptx_rounding_leave(saved);
	for (uint32_t i = 0; i < shape.m * N; i++) {
		uint32_t row = i / N, column = i % N;

		r[in->vector->rows[row / M_PIECE * 2 + column % 2]]
			.v[row % M_PIECE * 4 + column / 2]
			.f64 = out[i];
	}
	return in + 1;
}

static struct ptx_vector *vector_new(struct ptx_tr *tr, uint32_t n)
{
	struct ptx_vector *vector =
		ptx_arena_alloc(&tr->module->arena, sizeof(*vector) + n * sizeof(vector->rows[0]));

	if (!vector)
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
	else
		vector->n = 0;
	return vector;
}

/* Adds the registers of an operand, alone or in braces; false after a failure. */
static bool vector_fill(
	struct ptx_tr *tr, struct ptx_vector *vector, uint32_t operand, uint32_t n, bool is_dest)
{
	const struct ptx_operand *list = ptx_tr_operand(tr, operand);
	bool is_vector = list && list->kind == PTX_OPERAND_VECTOR;

	if (!list || (is_vector ? list->n_items : 1) != n) {
		ptx_tr_bad_operand(tr, operand);
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct ptx_operand *one = is_vector ? &list->items[i] : list;

		vector->rows[vector->n++] =
			is_dest ? ptx_tr_dest(tr, one, PTX_F64) : ptx_tr_source(tr, one, PTX_F64);
	}
	return !tr->log->error;
}

static bool take_shape(struct ptx_tr *tr, struct shape *ret_shape)
{
	static const char *const names[] = {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16", NULL};
	static const struct shape shapes[] = {{8, 4}, {16, 4}, {16, 8}, {16, 16}};
	int i = ptx_tr_take_one(tr, names);

	if (i >= 0)
		*ret_shape = shapes[i];
	return i >= 0;
}

/* The part that mma and wmma.mma share, after the layouts. */
static void translate_product(struct ptx_tr *tr, const struct shape *shape)
{
	enum ptx_rounding rounding = ptx_tr_take_rounding(tr);
	struct ptx_vector *vector;
	struct ptx_insn *in;

	for (unsigned i = 0; i < 4; i++)
		if (!ptx_tr_take(tr, "f64"))
			ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 4))
		return;
	vector = vector_new(tr, 2 * n_results(shape) + n_of_a(shape) + n_of_b(shape));
	if (!vector || !vector_fill(tr, vector, 0, n_results(shape), true) ||
		!vector_fill(tr, vector, 1, n_of_a(shape), false) ||
		!vector_fill(tr, vector, 2, n_of_b(shape), false) ||
		!vector_fill(tr, vector, 3, n_results(shape), false))
		return;
	in = ptx_tr_emit(tr, exec_mma);
	in->vector = vector;
	in->extra = shape->k;
	in->flags = shape->m;
	in->e = (int32_t)rounding;
}

static void translate_mma(struct ptx_tr *tr)
{
	struct shape shape;

	if (!ptx_tr_take(tr, "sync") || !ptx_tr_take(tr, "aligned") || !take_shape(tr, &shape) ||
		!ptx_tr_take(tr, "row") || !ptx_tr_take(tr, "col"))
		ptx_tr_refuse(tr);
	else
		translate_product(tr, &shape);
}

/*
 * Where a lane's value i lies, in values from the address. The values of a lane are
 * adjacent in a line of memory (flags: 1), or lie in adjacent lines (0).
 */
static uint64_t distance(const struct ptx_insn *in, uint32_t lane, uint32_t i, uint64_t stride)
{
	uint64_t outer = lane / 4, inner = lane % 4 * in->vector->n + i;

	return in->flags ? outer * stride + inner : inner * stride + outer;
}

/* extra: the route; b: the stride; m: whether it is a store. */
PTX_EXEC(exec_fragment)
{
	const struct ptx_vector *vector = in->vector;
	PTX_SOURCE(a);
	PTX_SOURCE(b);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint64_t start = a[l].u64 + (uint64_t)vector->offset, stride = b[l].u32;

		for (uint32_t i = 0; i < vector->n; i++) {
			uint64_t at = start + distance(in, l, i, stride) * sizeof(double);
			double *p =
				ptx_at(warp, (enum ptx_route)in->extra, l, at, sizeof(*p), in->m);

			if (!p)
				return NULL;
			if (in->m)
				*p = value_at(warp, r, vector->rows[i], l);
			else
				r[vector->rows[i]].v[l].f64 = *p;
		}
	}
	return in + 1;
}

static const char *const layouts[] = {"row", "col", NULL};

/* The address and the registers, in the order of the direction; then the stride. */
static void translate_fragment(struct ptx_tr *tr, bool is_store)
{
	static const char *const loaded[] = {"a", "b", "c", NULL}, *const stored[] = {"d", NULL};
	int matrix = ptx_tr_take_one(tr, is_store ? stored : loaded);
	int layout = ptx_tr_take_one(tr, layouts);
	bool is_line = (layout == 0) != (!is_store && matrix == 1);
	uint32_t n = is_store || matrix == 2 ? 2 : 1;
	enum ptx_space space = ptx_tr_take_space(tr);
	struct ptx_address address;
	struct ptx_vector *vector;
	struct ptx_insn *in;
	int32_t stride;

	if (matrix < 0 || layout < 0 || !ptx_tr_take(tr, "f64"))
		ptx_tr_refuse(tr);
	if (tr->stmt->n_operands != 2 && !ptx_tr_count(tr, 3))
		return;
	address = ptx_tr_memory(tr, is_store ? 0 : 1, space, sizeof(double));
	vector = vector_new(tr, n);
	if (!vector || !vector_fill(tr, vector, is_store ? 1 : 0, n, !is_store))
		return;
	vector->offset = address.offset;
	stride = tr->stmt->n_operands == 3 ? ptx_tr_source(tr, ptx_tr_operand(tr, 2), PTX_B32)
					   : ptx_tr_constant(tr, is_line ? 4 * n : M_PIECE);
	in = ptx_tr_emit(tr, exec_fragment);
	in->a = address.base;
	in->b = stride;
	in->m = is_store;
	in->vector = vector;
	in->extra = address.route;
	in->flags = is_line;
}

static void translate_wmma(struct ptx_tr *tr)
{
	static const struct shape shape = {M_PIECE, K_PIECE};
	bool is_load = ptx_tr_take(tr, "load");
	bool is_store = !is_load && ptx_tr_take(tr, "store");
	bool is_known = is_load || is_store ||
			(ptx_tr_take(tr, "mma") && ptx_tr_take_one(tr, layouts) >= 0 &&
				ptx_tr_take_one(tr, layouts) >= 0);

	if (!is_known || !ptx_tr_take(tr, "sync") || !ptx_tr_take(tr, "aligned") ||
		!ptx_tr_take(tr, "m8n8k4"))
		ptx_tr_refuse(tr);
	else if (is_load || is_store)
		translate_fragment(tr, is_store);
	else
		translate_product(tr, &shape);
}

static const struct ptx_family families[] = {
	{"mma", translate_mma},
	{"wmma", translate_wmma},
};

const struct ptx_family_table ptx_matrix_families = {families, ARRAY_SIZE(families)};
