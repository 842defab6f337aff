/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_CODE_H
#define PTX_CODE_H

/*
 * The translated form of a module: instructions with their function, the rows of
 * their operands and their targets. Loading and binding write it once; then any
 * number of running kernels read it.
 *
 * A warp runs an instruction for all its lanes at a time. A register is a row: a
 * value of 64 bits for each lane. Bits above the register's width are zero.
 */

#include <stdbool.h>
#include <stdint.h>

#include "ptx.h"
#include "tests/softgpu/ptx/parse/arena.h"
#include "tests/softgpu/ptx/parse/type.h"

#define PTX_LANES 32u
#define PTX_ALL_LANES 0xffffffffu

union ptx_reg {
	uint64_t u64;
	int64_t s64;
	uint32_t u32;
	int32_t s32;
	uint16_t u16;
	int16_t s16;
	uint8_t u8;
	int8_t s8;
	float f32;
	double f64;
};

struct ptx_row {
	union ptx_reg v[PTX_LANES];
};

struct ptx_warp;
struct ptx_insn;

/*
 * Runs an instruction for the lanes of warp->mask. Returns the instruction that all
 * of them run next. Returns NULL when they diverge, stop or fail; then the warp has
 * the program counter of each lane, or the run has a fault.
 */
typedef const struct ptx_insn *ptx_exec_fn(
	struct ptx_warp *warp, struct ptx_row *r, const struct ptx_insn *in);

/* What lanes do that have converged; each lane's instruction is at its program counter. */
typedef void ptx_meet_fn(struct ptx_warp *warp, uint32_t lanes);

/*
 * Operands: a row of the frame, or ~i for row i of the constants. Each function
 * defines its operands.
 */
struct ptx_insn {
	ptx_exec_fn *exec;
	int32_t d, a, b, c, e, m;
	uint32_t flags;
	uint32_t extra;
	union {
		int64_t imm;
		const struct ptx_insn *target;
		const struct ptx_call *call;
		const struct ptx_vector *vector;
		ptx_meet_fn *meet;
	};
};

/* The rows of a vector operand. */
struct ptx_vector {
	uint32_t n;
	uint32_t element_size;
	int64_t offset; /* of the address */
	int32_t rows[];
};

/* The location of an argument or a result: a row, or local memory of the frame. */
struct ptx_place {
	bool is_row;
	int32_t row;
	uint32_t offset;
	uint32_t size;
};

struct ptx_call {
	struct ptx_call *next;         /* of the function being translated */
	const struct ptx_code *callee; /* NULL: by address, from `address' */
	int32_t address;
	uint32_t caller_rows;  /* of its frame */
	uint32_t caller_local; /* bytes of its frame */
	uint32_t n_args, n_results;
	struct ptx_place *args, *results;
};

/* One function. The first rows of a called function's frame have the return position. */
struct ptx_code {
	const char *name;
	struct ptx_insn *insns;
	uint32_t n_insns;
	uint32_t n_rows;
	uint32_t local_size; /* bytes of its frame: .local variables and parameters */
	uint32_t n_params, n_results;
	struct ptx_place *params, *results;
	bool is_known;       /* has a body */
	bool has_open_stack; /* its stack has no known size */
};

#define PTX_ROW_RETURN 0 /* the instruction after the call */
#define PTX_ROW_FRAME 1  /* the caller's frame << 32 | the caller's local base */
#define PTX_ROW_CALLEE 2 /* the function that owns the frame */
#define PTX_ROWS_FIRST 3

struct ptx_kernel {
	struct ptx_kernel_info info;
	const struct ptx_module *module;
	const struct ptx_code *code;
	uint32_t shared_align;
};

/* The address of a variable, in a constant or an initial value. */
struct ptx_reloc {
	struct ptx_reloc *next;
	uint32_t global; /* the variable or function whose address it is */
	uint64_t addend;
	uint32_t constant; /* of a constant: its row */
	uint64_t offset;   /* of an initial value: where the address is stored */
	uint32_t size;
	uint64_t mask;
	bool is_function; /* the address is only `addend' */
};

struct ptx_global_code {
	struct ptx_global info;
	uint8_t *bytes; /* its initial value; NULL is zero */
	struct ptx_reloc *relocs;
};

struct ptx_module {
	struct ptx_arena arena;
	struct ptx_global_code *globals;
	uint32_t n_globals;
	struct ptx_kernel *kernels;
	uint32_t n_kernels;
	struct ptx_code *codes;
	uint32_t n_codes;
	struct ptx_row *constants;
	uint32_t n_constants;
	struct ptx_reloc *relocs; /* of constants */
	bool uses_reserved;       /* uses the address of the reserved shared memory */
};

/* The distance between the addresses of two functions, in PTX_WINDOW_CODE. */
#define PTX_CODE_STRIDE 16u

#endif
