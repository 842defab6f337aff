/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The single-token helpers of the PTX parser. Runs on the thread that loads a
 * module; the first failure stays in the log and ends the text.
 */

#include "parser.h"

#include <stdarg.h>
#include <stdio.h>

#include "base.h"

#define MESSAGE_MAX 512

static void parser_stop(struct ptx_parser *parser)
{
	parser->lex.at = parser->lex.end;
	parser->lex.token = (struct ptx_token){.kind = PTX_TOKEN_END, .text = parser->lex.end};
}

void ptx_parser_fail(struct ptx_parser *parser, int error, const char *format, ...)
{
	char message[MESSAGE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	ptx_log_fail(parser->log, error, parser->lex.line, "%s", message);
	parser_stop(parser);
}

void ptx_parser_unexpected(struct ptx_parser *parser, const char *wanted)
{
	const struct ptx_token *token = &parser->lex.token;

	if (token->kind == PTX_TOKEN_END)
		ptx_parser_fail(parser, -EINVAL, "the text ends where %s should be", wanted);
	else
		ptx_parser_fail(parser, -EINVAL, "'%.*s' where %s should be",
			(int)MIN(token->len, (size_t)80), token->text, wanted);
}

bool ptx_parser_accept(struct ptx_parser *parser, char punct)
{
	if (!ptx_lex_is(&parser->lex, punct))
		return false;
	ptx_lex_next(&parser->lex);
	return true;
}

void ptx_parser_expect(struct ptx_parser *parser, char punct)
{
	char wanted[] = {'\'', punct, '\'', '\0'};

	if (!ptx_parser_accept(parser, punct))
		ptx_parser_unexpected(parser, wanted);
}

bool ptx_parser_accept_dot(struct ptx_parser *parser, const char *directive)
{
	if (!ptx_token_is(&parser->lex.token, PTX_TOKEN_DOT, directive))
		return false;
	ptx_lex_next(&parser->lex);
	return true;
}

const char *ptx_parser_word(struct ptx_parser *parser)
{
	const struct ptx_token *token = &parser->lex.token;
	const char *word;

	if (token->kind != PTX_TOKEN_WORD) {
		ptx_parser_unexpected(parser, "a name");
		return "";
	}
	word = ptx_arena_string(&parser->unit->arena, token->text, token->len);
	if (!word) {
		ptx_parser_fail(parser, -ENOMEM, "out of memory");
		return "";
	}
	ptx_lex_next(&parser->lex);
	return word;
}

static uint64_t parser_literal(struct ptx_parser *parser)
{
	bool is_negative = false;
	uint64_t value;

	while (ptx_lex_is(&parser->lex, '-') || ptx_lex_is(&parser->lex, '+')) {
		is_negative ^= ptx_lex_is(&parser->lex, '-');
		ptx_lex_next(&parser->lex);
	}
	if (parser->lex.token.kind != PTX_TOKEN_INT) {
		ptx_parser_unexpected(parser, "an integer");
		return 0;
	}
	value = parser->lex.token.value;
	ptx_lex_next(&parser->lex);
	return is_negative ? -value : value;
}

int64_t ptx_parser_offset(struct ptx_parser *parser)
{
	uint64_t sum = 0;

	while (ptx_lex_is(&parser->lex, '-') || ptx_lex_is(&parser->lex, '+'))
		sum += parser_literal(parser);
	return (int64_t)sum;
}

int64_t ptx_parser_int(struct ptx_parser *parser)
{
	uint64_t value = parser_literal(parser);

	return (int64_t)(value + (uint64_t)ptx_parser_offset(parser));
}

void *ptx_parser_alloc(struct ptx_parser *parser, size_t size)
{
	void *p = ptx_arena_alloc(&parser->unit->arena, size);

	if (!p)
		ptx_parser_fail(parser, -ENOMEM, "out of memory");
	return p;
}

void *ptx_parser_grow(struct ptx_parser *parser, void *array, size_t n, size_t item_size)
{
	void *more = ptx_arena_grow(&parser->unit->arena, array, n, item_size);

	if (!more)
		ptx_parser_fail(parser, -ENOMEM, "out of memory");
	return more;
}

struct ptx_symbol *ptx_parser_declared(
	struct ptx_parser *parser, const char *name, struct ptx_linkage linkage)
{
	struct ptx_symbol *symbol = ptx_symbol_find_in(parser->unit, parser->scope, name);

	if (symbol || parser->scope != parser->file)
		return symbol;
	symbol = ptx_symbol_find_in(parser->unit, &parser->unit->root, name);
	return symbol && (linkage.is_global || symbol->home == parser->file) ? symbol : NULL;
}

const struct ptx_scope *ptx_parser_scope(
	const struct ptx_parser *parser, struct ptx_linkage linkage)
{
	return linkage.is_global && parser->scope == parser->file ? &parser->unit->root
								  : parser->scope;
}

void ptx_parser_push(struct ptx_parser *parser)
{
	struct ptx_scope *scope = ptx_parser_alloc(parser, sizeof(*scope));

	if (!scope)
		return;
	scope->parent = parser->scope;
	parser->scope = scope;
}

void ptx_parser_pop(struct ptx_parser *parser)
{
	if (parser->scope->parent)
		parser->scope = parser->scope->parent;
}
