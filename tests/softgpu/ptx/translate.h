/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_TRANSLATE_H
#define PTX_TRANSLATE_H

/*
 * From the parsed form of a function to its instructions. A plain instruction is a row
 * of a table: its whole name, the form of its operands, its function. A family has a
 * function that takes the modifiers it knows; a modifier that is left over makes the
 * instruction unknown, never a guess.
 *
 * The first failure stays in the log; afterwards all functions continue without effect.
 */

#include <stdbool.h>
#include <stdint.h>

#include "code.h"
#include "tests/softgpu/ptx/parse/parse.h"

#define PTX_MODIFIERS_MAX 16u
#define PTX_MODIFIER_LEN 32u

/* Bits of ptx_insn.flags for all instructions; families use the lower bits. */
enum ptx_insn_flags {
	PTX_INSN_PARTS = 1u << 31,  /* lanes may diverge: it must run for all of them at once */
	PTX_INSN_BRANCH = 1u << 30, /* imm is a statement until the function is finished */
};

/*
 * A plain instruction. `operands' has a letter for each operand, the destination first:
 * p predicate, h w x integer of 16, 32, 64 bits, f d float of 32, 64.
 */
struct ptx_op {
	const char *name;
	const char *operands;
	ptx_exec_fn *exec;
};

struct ptx_op_table {
	const struct ptx_op *ops;
	uint32_t n;
};

struct ptx_tr;

struct ptx_family {
	const char *name; /* the instruction without its modifiers */
	void (*translate)(struct ptx_tr *tr);
};

struct ptx_family_table {
	const struct ptx_family *families;
	uint32_t n;
};

struct ptx_constant_key {
	uint64_t value;
	uint32_t tag;
	uint32_t row_plus_one;
};

/* The constants of a module, looked up by value. */
struct ptx_constants {
	struct ptx_constant_key *keys;
	uint32_t n_keys; /* a power of two */
	uint32_t n, capacity;
	struct ptx_row *rows;
};

struct ptx_tr {
	struct ptx_module *module;
	struct ptx_unit *unit;
	struct ptx_log *log;
	struct ptx_constants *constants;
	struct ptx_function *function;
	struct ptx_code *code;
	const struct ptx_stmt *stmt;
	char mnemonic[PTX_MODIFIER_LEN];
	char modifiers[PTX_MODIFIERS_MAX][PTX_MODIFIER_LEN];
	bool taken[PTX_MODIFIERS_MAX];
	uint32_t n_modifiers;
	struct ptx_insn *insns;
	uint32_t n_insns, capacity;
	struct ptx_insn spare; /* written to if there is no memory */
	uint32_t n_rows;
	struct ptx_call *calls; /* of the current function */
};

/* Plain instructions, by file. */
extern const struct ptx_op_table ptx_int_ops, ptx_bits_ops, ptx_wide_ops;
/* Families, by file. */
extern const struct ptx_family_table ptx_float_families, ptx_compare_families, ptx_move_families,
	ptx_convert_families, ptx_memory_families, ptx_atomic_families, ptx_control_families,
	ptx_meet_families, ptx_barrier_families, ptx_simd_families, ptx_async_families,
	ptx_cluster_families, ptx_texture_families, ptx_surface_families, ptx_matrix_families;

/* Translates a function with a body; code, parameters and frame are then laid out. */
void ptx_translate_function(struct ptx_tr *tr, struct ptx_function *function);

/* Emits one instruction. The pointer is valid until the next one. */
struct ptx_insn *ptx_tr_emit(struct ptx_tr *tr, ptx_exec_fn *exec);

__attribute__((format(printf, 3, 4))) void ptx_tr_fail(
	struct ptx_tr *tr, int error, const char *format, ...);
/* Reports an unknown instruction. */
void ptx_tr_refuse(struct ptx_tr *tr);
/* Reports wrong operands. */
void ptx_tr_bad_operand(struct ptx_tr *tr, uint32_t i);

/* Takes a modifier at any position. */
bool ptx_tr_take(struct ptx_tr *tr, const char *modifier);
/* Takes the first modifier of a NULL-terminated list that is present; -1 without one. */
int ptx_tr_take_one(struct ptx_tr *tr, const char *const *modifiers);
/* Takes the first modifier that is a type; PTX_NONE without one. */
enum ptx_type ptx_tr_take_type(struct ptx_tr *tr);
/* Drops modifiers that are only hints: caches, scopes, memory orders of a single thread. */
void ptx_tr_take_hints(struct ptx_tr *tr);

/* The operand, after a check that it exists; the caller checks its kind. */
const struct ptx_operand *ptx_tr_operand(struct ptx_tr *tr, uint32_t i);
/* Refuses a statement without exactly n operands. */
bool ptx_tr_count(struct ptx_tr *tr, uint32_t n);

/* The row of a source of exactly that size: a register, literal or address. */
int32_t ptx_tr_source(struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type);
/* The same for a register that may be wider than the type. */
int32_t ptx_tr_source_wide(
	struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type);
int32_t ptx_tr_dest(struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type);
/* A wider register is allowed; *ret_size gets its bytes. */
int32_t ptx_tr_dest_wide(struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type,
	uint32_t *ret_size);

/* A row that belongs to no register. */
int32_t ptx_tr_temp(struct ptx_tr *tr);
int32_t ptx_tr_constant(struct ptx_tr *tr, uint64_t value);
/* The address of a module's variable, known once it is bound. */
int32_t ptx_tr_global(struct ptx_tr *tr, uint32_t global, uint64_t addend);

/* The symbol of a name; NULL if unknown. */
struct ptx_symbol *ptx_tr_symbol(struct ptx_tr *tr, const char *name, uint32_t *ret_index);
/* A register's row and size; -1 and a failure if the operand is not a register. */
int32_t ptx_tr_register(struct ptx_tr *tr, const char *name, enum ptx_type *ret_type);

/* The address of a variable in its own space, as a row. */
int32_t ptx_tr_address(struct ptx_tr *tr, const struct ptx_symbol *symbol, int64_t offset);

/* Emits the read of a special register; false if the name is unknown. */
bool ptx_tr_special(struct ptx_tr *tr, const char *name, int32_t row);

/* add, addc, sub, subc, mad, madc: the forms with a carry. */
void ptx_translate_carry(struct ptx_tr *tr);

/* call, in all its forms; and the instruction of a call that is not a builtin. */
void ptx_translate_call(struct ptx_tr *tr);
struct ptx_insn *ptx_tr_emit_call(struct ptx_tr *tr);

/* add, min, max of two integers of 16 bits; false if the instruction is another. */
bool ptx_translate_pair(struct ptx_tr *tr);

/* cvt of floats of 8 bits; false for other types. */
bool ptx_translate_fp8(struct ptx_tr *tr);

/* barrier.cluster.arrive and .wait */
void ptx_translate_cluster_barrier(struct ptx_tr *tr);

/* bar.warp.sync */
void ptx_translate_warp_barrier(struct ptx_tr *tr);

/* atom and red of vectors; false for single numbers. */
bool ptx_translate_atomic_vector(struct ptx_tr *tr);
/* Adds to the value at p, of that type; returns the old value. */
uint64_t ptx_atomic_add(void *p, enum ptx_type type, uint64_t x);

/* Emits the end of a function. */
void ptx_tr_emit_end(struct ptx_tr *tr);

/* Emits dest = !source. */
void ptx_tr_emit_not(struct ptx_tr *tr, int32_t dest, int32_t source);

int ptx_constants_add(struct ptx_constants *constants, uint64_t value, uint32_t tag,
	uint32_t *ret_row, bool *ret_is_new);
void ptx_constants_fini(struct ptx_constants *constants);

#endif
