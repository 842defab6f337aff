/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_PARSE_H
#define PTX_PARSE_H

/*
 * The parsed form of a PTX module: symbols in scopes, functions, and their instructions
 * as names and literals. It lives in the unit's arena until the module is translated.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "type.h"

enum ptx_symbol_kind {
	PTX_SYMBOL_REG, /* a register, or `count' of them: name0, name1, ... */
	PTX_SYMBOL_VAR, /* in every space except registers */
	PTX_SYMBOL_FUNC,
	PTX_SYMBOL_LABEL,
	PTX_SYMBOL_TARGETS,   /* .branchtargets */
	PTX_SYMBOL_PROTOTYPE, /* .callprototype, .calltargets */
};

struct ptx_scope {
	struct ptx_scope *parent;
};

struct ptx_symbol {
	struct ptx_symbol *next; /* in its hash bucket */
	const struct ptx_scope *scope;
	const struct ptx_scope *home; /* of a definition: the scope of its text */
	const char *name;
	enum ptx_symbol_kind kind;
	enum ptx_type type;
	enum ptx_space space;
	uint32_t line;
	/* registers */
	uint32_t count;  /* of a range; 0 for a single one */
	uint32_t *slots; /* set by the translator; 0: not yet */
	/* variables */
	uint64_t size; /* bytes */
	uint32_t align;
	bool is_extern;
	bool is_weak;
	bool is_unsized;
	bool is_managed;
	bool is_global_scope;
	bool is_entry_param;
	struct ptx_init *inits;
	uint64_t offset; /* its offset in its space, if it is not global */
	uint32_t global; /* index in the module, of a global or constant */
	/* functions and prototypes; NULL: .calltargets */
	struct ptx_function *function;
	/* labels */
	uint32_t stmt;               /* the statement after it */
	struct ptx_operand *targets; /* of .branchtargets, a list */
};

/* A piece of an initial value. */
struct ptx_init {
	struct ptx_init *next;
	uint64_t offset;
	uint32_t size;
	uint64_t value;     /* or the addend, with a symbol */
	const char *symbol; /* the symbol whose address it is, or NULL */
	uint64_t mask;      /* the bits of the address, shifted down; 0: all */
};

enum ptx_operand_kind {
	PTX_OPERAND_NAME,
	PTX_OPERAND_INT,
	PTX_OPERAND_F32,
	PTX_OPERAND_F64,
	PTX_OPERAND_VECTOR,  /* {a, b} */
	PTX_OPERAND_LIST,    /* (a, b) */
	PTX_OPERAND_ADDRESS, /* [items[0] + offset] */
	PTX_OPERAND_PAIR,    /* p|q */
	PTX_OPERAND_SINK,    /* _ */
};

struct ptx_operand {
	enum ptx_operand_kind kind;
	bool is_negated;  /* !p */
	const char *name; /* of PTX_OPERAND_NAME */
	uint64_t value;
	int64_t offset; /* of an address, and of name+offset */
	struct ptx_operand *items;
	uint32_t n_items;
};

struct ptx_stmt {
	const char *opcode; /* with its modifiers */
	const char *guard;  /* predicate register, or NULL */
	bool guard_is_negated;
	uint32_t line;
	const struct ptx_scope *scope;
	struct ptx_operand *operands;
	uint32_t n_operands;
};

struct ptx_function {
	struct ptx_function *next;
	struct ptx_symbol *symbol;
	bool is_entry;
	bool has_body;
	struct ptx_scope *scope;
	struct ptx_symbol **params;
	uint32_t n_params;
	struct ptx_symbol **results;
	uint32_t n_results;
	uint32_t max_threads; /* 0: not set */
	uint32_t max_regs;    /* .maxnreg; 0: not set */
	uint32_t cluster[3];
	struct ptx_symbol **vars; /* the .local, .shared and .param variables of the body */
	uint32_t n_vars;
	struct ptx_stmt *stmts;
	uint32_t n_stmts;
	uint32_t index; /* in the module; set by the translator */
};

/* Where the loader writes a message. The first message stays. */
struct ptx_log {
	char *text;
	size_t size;
	int error; /* 0 or -errno */
};

/* The parsed form of one text, or of several that are linked. */
struct ptx_unit {
	struct ptx_arena arena;
	struct ptx_scope root; /* the symbols that all texts see; each text has a scope within it */
	struct ptx_symbol **buckets;
	uint32_t n_buckets;
	uint32_t n_symbols;
	struct ptx_function *functions; /* in order of their bodies */
	struct ptx_function **functions_tail;
	struct ptx_symbol **vars; /* of the module's scope, and .global variables of bodies */
	uint32_t n_vars;
	uint32_t arch; /* of .target */
};

/* Keeps the first error and its message; returns the kept error. */
int ptx_log_fail(struct ptx_log *log, int error, uint32_t line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Parses a text into the unit. A further text joins those before: extern, visible,
 * weak and common symbols are shared; all others belong to one text. The caller frees
 * the unit even after a failure.
 */
int ptx_parse(struct ptx_unit *unit, const char *text, size_t len, struct ptx_log *log);
void ptx_unit_fini(struct ptx_unit *unit);

/*
 * After the texts of a whole program, which nothing else will join: an extern variable
 * that has a size is a definition. As ptxas does, which only warns of it.
 */
void ptx_unit_complete(struct ptx_unit *unit);

/* Finds a symbol in `scope' and the scopes around it. *ret_index is for a register range. */
struct ptx_symbol *ptx_symbol_find(const struct ptx_unit *unit, const struct ptx_scope *scope,
	const char *name, uint32_t *ret_index);
/* In `scope' only; NULL if there is none. */
struct ptx_symbol *ptx_symbol_find_in(
	const struct ptx_unit *unit, const struct ptx_scope *scope, const char *name);
struct ptx_symbol *ptx_symbol_add(struct ptx_unit *unit, const struct ptx_scope *scope,
	const char *name, enum ptx_symbol_kind kind);

#endif
