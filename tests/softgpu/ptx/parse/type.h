/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_TYPE_H
#define PTX_TYPE_H

/*
 * The fundamental types and the state spaces of PTX.
 */

#include <stdbool.h>
#include <stdint.h>

enum ptx_type {
	PTX_NONE,
	PTX_PRED,
	PTX_B8,
	PTX_U8,
	PTX_S8,
	PTX_B16,
	PTX_U16,
	PTX_S16,
	PTX_F16,
	PTX_BF16,
	PTX_B32,
	PTX_U32,
	PTX_S32,
	PTX_F32,
	PTX_F16X2,
	PTX_BF16X2,
	PTX_U16X2,
	PTX_S16X2,
	PTX_B64,
	PTX_U64,
	PTX_S64,
	PTX_F64,
	PTX_B128,
};

enum ptx_space {
	PTX_SPACE_GENERIC,
	PTX_SPACE_REG,
	PTX_SPACE_GLOBAL,
	PTX_SPACE_CONST,
	PTX_SPACE_SHARED,
	PTX_SPACE_LOCAL,
	PTX_SPACE_PARAM,
};

/*
 * Where private memory of blocks and threads lies in the generic address space: above
 * every address that the host can map.
 */
#define PTX_WINDOW_SHARED (1ull << 56)
#define PTX_WINDOW_LOCAL (2ull << 56)
#define PTX_WINDOW_PARAM (3ull << 56)
/* Addresses of functions: recognisable, and never those of data. */
#define PTX_WINDOW_CODE (4ull << 56)
/* What the driver keeps for a launch: the barrier of the grid. */
#define PTX_WINDOW_RUN (5ull << 56)
/* The bits of a shared address from there on: the rank of its block, plus one. */
#define PTX_RANK_SHIFT 24
#define PTX_WINDOW_SIZE (1ull << 32)

/* PTX_NONE if `name' (without its dot) is not a type. */
enum ptx_type ptx_type_find(const char *name);

/* Bytes; a predicate has one. */
uint32_t ptx_type_size(enum ptx_type type);

bool ptx_type_is_signed(enum ptx_type type);

#endif
