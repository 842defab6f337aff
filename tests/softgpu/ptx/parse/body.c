/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bodies of functions: statements, labels, operands. Runs on the thread that loads a
 * module. Names stay names, because a label may come later.
 */

#include <string.h>

#include "base.h"
#include "parser.h"

#define DEPTH_MAX 1000u

static struct ptx_operand parse_number(struct ptx_parser *parser, bool is_negative)
{
	const struct ptx_token *token = &parser->lex.token;
	struct ptx_operand operand = {.kind = PTX_OPERAND_INT, .value = token->value};

	switch (token->kind) {
	case PTX_TOKEN_F32:
		operand.kind = PTX_OPERAND_F32;
		operand.value ^= is_negative ? 1ull << 31 : 0;
		break;
	case PTX_TOKEN_F64:
		operand.kind = PTX_OPERAND_F64;
		operand.value ^= is_negative ? 1ull << 63 : 0;
		break;
	case PTX_TOKEN_INT:
		operand.value = is_negative ? -operand.value : operand.value;
		ptx_lex_next(&parser->lex);
		operand.value += (uint64_t)ptx_parser_offset(parser);
		return operand;
	default:
		ptx_parser_unexpected(parser, "an operand");
		return operand;
	}
	ptx_lex_next(&parser->lex);
	return operand;
}

/* A name or a literal, with its prefix and suffix. */
static struct ptx_operand parse_simple(struct ptx_parser *parser)
{
	struct ptx_operand operand = {.kind = PTX_OPERAND_NAME};
	bool is_negative = false;

	if (ptx_parser_accept(parser, '!'))
		operand.is_negated = true;
	while (!operand.is_negated && ptx_parser_accept(parser, '-'))
		is_negative = !is_negative;
	if (is_negative || parser->lex.token.kind != PTX_TOKEN_WORD)
		return parse_number(parser, is_negative);
	operand.name = ptx_parser_word(parser);
	if (!strcmp(operand.name, "_"))
		operand.kind = PTX_OPERAND_SINK;
	else
		operand.offset = ptx_parser_offset(parser);
	return operand;
}

static void operand_push(
	struct ptx_parser *parser, struct ptx_operand *list, struct ptx_operand item)
{
	struct ptx_operand *items =
		ptx_parser_grow(parser, list->items, list->n_items, sizeof(*items));

	if (!items)
		return;
	list->items = items;
	items[list->n_items++] = item;
}

static struct ptx_operand parse_group(struct ptx_parser *parser)
{
	struct ptx_operand list = {.kind = PTX_OPERAND_VECTOR};
	char close = '}';

	if (ptx_parser_accept(parser, '(')) {
		list.kind = PTX_OPERAND_LIST;
		close = ')';
	} else if (!ptx_parser_accept(parser, '{')) {
		return parse_simple(parser);
	}
	if (ptx_parser_accept(parser, close))
		return list;
	do
		operand_push(parser, &list, parse_simple(parser));
	while (!parser->log->error && ptx_parser_accept(parser, ','));
	ptx_parser_expect(parser, close);
	return list;
}

struct ptx_operand ptx_parse_operand(struct ptx_parser *parser)
{
	struct ptx_operand first, list = {.kind = PTX_OPERAND_ADDRESS};

	if (ptx_parser_accept(parser, '[')) {
		do
			operand_push(parser, &list, parse_group(parser));
		while (!parser->log->error && ptx_parser_accept(parser, ','));
		ptx_parser_expect(parser, ']');
		if (list.n_items)
			list.offset = list.items[0].offset;
		return list;
	}
	first = parse_group(parser);
	if (!ptx_parser_accept(parser, '|'))
		return first;
	list.kind = PTX_OPERAND_PAIR;
	operand_push(parser, &list, first);
	operand_push(parser, &list, parse_simple(parser));
	return list;
}

static void parse_operands(struct ptx_parser *parser, struct ptx_stmt *stmt)
{
	struct ptx_operand list = {0};

	if (ptx_parser_accept(parser, ';'))
		return;
	do
		operand_push(parser, &list, ptx_parse_operand(parser));
	while (!parser->log->error && ptx_parser_accept(parser, ','));
	ptx_parser_expect(parser, ';');
	stmt->operands = list.items;
	stmt->n_operands = list.n_items;
}

static void stmt_push(struct ptx_parser *parser, struct ptx_stmt stmt)
{
	struct ptx_function *function = parser->function;
	struct ptx_stmt *stmts =
		ptx_parser_grow(parser, function->stmts, function->n_stmts, sizeof(*stmts));

	if (!stmts)
		return;
	function->stmts = stmts;
	stmts[function->n_stmts++] = stmt;
}

/* L: .branchtargets A, B;  L: .callprototype (..) _ (..);  L: .calltargets f, g; */
static void parse_label_directive(struct ptx_parser *parser, struct ptx_symbol *symbol)
{
	struct ptx_operand *list;

	if (ptx_parser_accept_dot(parser, "branchtargets")) {
		symbol->kind = PTX_SYMBOL_TARGETS;
		list = ptx_parser_alloc(parser, sizeof(*list));
		if (!list)
			return;
		do
			operand_push(parser, list, parse_simple(parser));
		while (!parser->log->error && ptx_parser_accept(parser, ','));
		ptx_parser_expect(parser, ';');
		symbol->targets = list;
	} else if (ptx_parser_accept_dot(parser, "callprototype")) {
		symbol->kind = PTX_SYMBOL_PROTOTYPE;
		symbol->function = ptx_parse_prototype(parser);
	} else if (ptx_parser_accept_dot(parser, "calltargets")) {
		symbol->kind = PTX_SYMBOL_PROTOTYPE;
		while (!ptx_lex_is(&parser->lex, ';') && parser->lex.token.kind != PTX_TOKEN_END)
			ptx_lex_next(&parser->lex);
		ptx_parser_expect(parser, ';');
	}
}

static void parse_label(struct ptx_parser *parser, const char *name)
{
	struct ptx_symbol *symbol;

	if (ptx_symbol_find_in(parser->unit, parser->scope, name)) {
		ptx_parser_fail(parser, -EINVAL, "'%s' is declared twice", name);
		return;
	}
	symbol = ptx_symbol_add(parser->unit, parser->scope, name, PTX_SYMBOL_LABEL);
	if (!symbol) {
		ptx_parser_fail(parser, -ENOMEM, "out of memory");
		return;
	}
	symbol->stmt = parser->function->n_stmts;
	parse_label_directive(parser, symbol);
}

static void parse_instruction(struct ptx_parser *parser)
{
	struct ptx_stmt stmt = {.scope = parser->scope, .line = parser->lex.line};

	if (ptx_parser_accept(parser, '@')) {
		stmt.guard_is_negated = ptx_parser_accept(parser, '!');
		stmt.guard = ptx_parser_word(parser);
	}
	if (parser->lex.token.kind == PTX_TOKEN_WORD)
		ptx_lex_opcode(&parser->lex);
	stmt.opcode = ptx_parser_word(parser);
	if (!stmt.guard && ptx_parser_accept(parser, ':')) {
		parse_label(parser, stmt.opcode);
		return;
	}
	parse_operands(parser, &stmt);
	if (!parser->log->error)
		stmt_push(parser, stmt);
}

bool ptx_parser_skip_debug(struct ptx_parser *parser)
{
	static const char *const lines[] = {"loc", "file"};

	for (unsigned i = 0; i < ARRAY_SIZE(lines); i++) {
		if (!ptx_token_is(&parser->lex.token, PTX_TOKEN_DOT, lines[i]))
			continue;
		ptx_lex_skip_line(&parser->lex);
		return true;
	}
	if (!ptx_parser_accept_dot(parser, "pragma"))
		return false;
	while (parser->lex.token.kind == PTX_TOKEN_STRING || ptx_lex_is(&parser->lex, ','))
		ptx_lex_next(&parser->lex);
	ptx_parser_expect(parser, ';');
	return true;
}

static void parse_directive(struct ptx_parser *parser)
{
	static const struct {
		const char *name;
		enum ptx_space space;
	} spaces[] = {
		{"reg", PTX_SPACE_REG},
		{"local", PTX_SPACE_LOCAL},
		{"shared", PTX_SPACE_SHARED},
		{"param", PTX_SPACE_PARAM},
		{"global", PTX_SPACE_GLOBAL},
		{"const", PTX_SPACE_CONST},
	};
	const struct ptx_token *token = &parser->lex.token;
	struct ptx_linkage linkage = {.is_extern = ptx_parser_accept_dot(parser, "extern")};

	if (ptx_parser_skip_debug(parser))
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(spaces); i++) {
		if (!ptx_parser_accept_dot(parser, spaces[i].name))
			continue;
		ptx_parse_variables(parser, spaces[i].space, linkage);
		ptx_parser_expect(parser, ';');
		return;
	}
	ptx_parser_fail(parser, -ENOTSUP, "unknown directive '.%.*s'",
		(int)MIN(token->len, (size_t)80), token->text);
}

void ptx_parse_body(struct ptx_parser *parser)
{
	unsigned depth = 1;

	while (depth && parser->lex.token.kind != PTX_TOKEN_END) {
		if (ptx_parser_accept(parser, '{')) {
			if (++depth > DEPTH_MAX)
				ptx_parser_fail(parser, -EINVAL, "too many open braces");
			ptx_parser_push(parser);
		} else if (ptx_parser_accept(parser, '}')) {
			if (--depth)
				ptx_parser_pop(parser);
		} else if (ptx_parser_accept(parser, ';')) {
			continue;
		} else if (parser->lex.token.kind == PTX_TOKEN_DOT) {
			parse_directive(parser);
		} else {
			parse_instruction(parser);
		}
	}
	if (depth)
		ptx_parser_unexpected(parser, "'}'");
}
