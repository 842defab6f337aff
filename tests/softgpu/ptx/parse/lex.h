/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_LEX_H
#define PTX_LEX_H

/*
 * Splits PTX text into tokens, one at a time. A token points into the text;
 * nothing is allocated.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_token_kind {
	PTX_TOKEN_END,
	PTX_TOKEN_WORD,   /* a name, with the element of a special register: %tid.x */
	PTX_TOKEN_DOT,    /* a directive; `text' starts after its dot */
	PTX_TOKEN_INT,    /* `value' */
	PTX_TOKEN_F32,    /* `value' is the bits of a float */
	PTX_TOKEN_F64,    /* `value' is the bits of a double */
	PTX_TOKEN_STRING, /* `text' without the quotes */
	PTX_TOKEN_PUNCT,  /* `text' is one character */
	PTX_TOKEN_BAD,
};

struct ptx_token {
	enum ptx_token_kind kind;
	const char *text;
	size_t len;
	uint64_t value;
};

struct ptx_lex {
	const char *at; /* after the current token */
	const char *end;
	uint32_t line;
	struct ptx_token token; /* the current one */
};

/* Starts at `text' and reads the first token. */
void ptx_lex_init(struct ptx_lex *lex, const char *text, size_t len);

void ptx_lex_next(struct ptx_lex *lex);

/* The current word is an instruction: adds its modifiers (".global.v2.f32") to it. */
void ptx_lex_opcode(struct ptx_lex *lex);

/* Drops the rest of the line, and reads the next token. */
void ptx_lex_skip_line(struct ptx_lex *lex);

/* Whether the current token is that punctuation, directive or word. */
bool ptx_lex_is(const struct ptx_lex *lex, char punct);
bool ptx_token_is(const struct ptx_token *token, enum ptx_token_kind kind, const char *text);

#endif
