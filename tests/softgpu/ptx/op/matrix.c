/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Products of matrices in registers of a warp: mma of doubles. Runs on the thread that
 * runs the kernel. All lanes of the warp are at the instruction, as .aligned says.
 *
 * The lane l has the rows l / 4 and the columns l % 4 of each piece of a matrix; the
 * manual of PTX defines the pieces.
 */

#include <math.h>

#include "base.h"
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
	double out[16 * N];

	for (uint32_t i = 0; i < shape.m * N; i++)
		out[i] = element(warp, r, in, &shape, i / N, i % N);
	for (uint32_t i = 0; i < shape.m * N; i++) {
		uint32_t row = i / N, column = i % N;

		r[in->vector->rows[row / M_PIECE * 2 + column % 2]]
			.v[row % M_PIECE * 4 + column / 2]
			.f64 = out[i];
	}
	return in + 1;
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

static void translate_mma(struct ptx_tr *tr)
{
	struct ptx_vector *vector;
	struct ptx_insn *in;
	struct shape shape;

	if (!ptx_tr_take(tr, "sync") || !ptx_tr_take(tr, "aligned") || !take_shape(tr, &shape) ||
		!ptx_tr_take(tr, "row") || !ptx_tr_take(tr, "col") || !ptx_tr_take(tr, "f64") ||
		!ptx_tr_take(tr, "f64") || !ptx_tr_take(tr, "f64") || !ptx_tr_take(tr, "f64")) {
		ptx_tr_refuse(tr);
		return;
	}
	ptx_tr_take(tr, "rn");
	if (!ptx_tr_count(tr, 4))
		return;
	vector = ptx_arena_alloc(&tr->module->arena,
		sizeof(*vector) + (2 * n_results(&shape) + n_of_a(&shape) + n_of_b(&shape)) *
					  sizeof(vector->rows[0]));
	if (!vector) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return;
	}
	vector->n = 0;
	if (!vector_fill(tr, vector, 0, n_results(&shape), true) ||
		!vector_fill(tr, vector, 1, n_of_a(&shape), false) ||
		!vector_fill(tr, vector, 2, n_of_b(&shape), false) ||
		!vector_fill(tr, vector, 3, n_results(&shape), false))
		return;
	in = ptx_tr_emit(tr, exec_mma);
	in->vector = vector;
	in->extra = shape.k;
	in->flags = shape.m;
}

static const struct ptx_family families[] = {
	{"mma", translate_mma},
};

const struct ptx_family_table ptx_matrix_families = {families, ARRAY_SIZE(families)};
