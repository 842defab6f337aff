/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_PARSER_H
#define PTX_PARSER_H

/*
 * Shared by the files of the PTX parser: its state, and helpers for single tokens.
 * After a failure, the token becomes the end of the text, so the helpers do nothing
 * and the loops end.
 */

#include "lex.h"
#include "parse.h"

struct ptx_parser {
	struct ptx_unit *unit;
	struct ptx_lex lex;
	struct ptx_log *log;
	struct ptx_scope *file; /* of this text */
	struct ptx_scope *scope;
	struct ptx_function *function; /* the function whose body is being read, or NULL */
	bool in_params;                /* between the parentheses of a function's head */
};

/* The linkage before a declaration. */
struct ptx_linkage {
	bool is_global; /* extern, visible, weak or common: one name for all texts */
	bool is_extern;
	bool is_weak; /* another definition may replace it */
};

void ptx_parser_fail(struct ptx_parser *parser, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ptx_parser_unexpected(struct ptx_parser *parser, const char *wanted);

/* Takes the punctuation if it is next. */
bool ptx_parser_accept(struct ptx_parser *parser, char punct);
void ptx_parser_expect(struct ptx_parser *parser, char punct);
bool ptx_parser_accept_dot(struct ptx_parser *parser, const char *directive);

/* A name, copied into the unit; "" on failure. */
const char *ptx_parser_word(struct ptx_parser *parser);
/* A literal with its sign, or a sum of literals. */
int64_t ptx_parser_int(struct ptx_parser *parser);
/* {(+|-) literal}; 0 without one. */
int64_t ptx_parser_offset(struct ptx_parser *parser);

void *ptx_parser_alloc(struct ptx_parser *parser, size_t size);
void *ptx_parser_grow(struct ptx_parser *parser, void *array, size_t n, size_t item_size);

/* Enters a new scope in the current scope, and leaves it. */
void ptx_parser_push(struct ptx_parser *parser);
void ptx_parser_pop(struct ptx_parser *parser);

/* The symbol of a declaration, if this text has it already, or, if it is shared, another text. */
struct ptx_symbol *ptx_parser_declared(
	struct ptx_parser *parser, const char *name, struct ptx_linkage linkage);
/* The scope for a new symbol of that linkage. */
const struct ptx_scope *ptx_parser_scope(
	const struct ptx_parser *parser, struct ptx_linkage linkage);

/*
 * One or more variables of `space', whose directive was just taken. Stops before the
 * end of the declaration. Returns the last symbol, NULL on failure.
 */
struct ptx_symbol *ptx_parse_variables(
	struct ptx_parser *parser, enum ptx_space space, struct ptx_linkage linkage);

/* A function from its ".entry" or ".func", which was just taken. */
void ptx_parse_function(struct ptx_parser *parser, bool is_entry, struct ptx_linkage linkage);

/* (results) _ (params); of a .callprototype, which was just taken, as a function without a name. */
struct ptx_function *ptx_parse_prototype(struct ptx_parser *parser);

/* Statements up to the closing brace of the body, whose opening brace was taken. */
void ptx_parse_body(struct ptx_parser *parser);

struct ptx_operand ptx_parse_operand(struct ptx_parser *parser);

/* Skips .pragma, .loc, .file and similar directives, which have no effect; whether it was one. */
bool ptx_parser_skip_debug(struct ptx_parser *parser);

#endif
