/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Declarations of variables, parameters and registers, with their initial
 * values. Runs on the thread that loads a module; sizes are computed here and
 * nowhere else.
 */

#include <stdio.h>
#include <string.h>

#include "base.h"
#include "parser.h"

/* Of one variable: more is no device's, and it keeps the arithmetic far from wrapping. */
#define VAR_SIZE_MAX (1ull << 36)
#define REG_COUNT_MAX (1u << 22)
#define ALIGN_MAX 4096u
#define DIMS_MAX 8u

struct declaration {
	enum ptx_space space;
	enum ptx_type type;
	uint32_t n_elements; /* of a vector type */
	uint32_t align;
	bool is_managed;
	struct ptx_linkage linkage;
};

struct dims {
	uint64_t n[DIMS_MAX];
	uint32_t count;
};

static uint32_t parse_align(struct ptx_parser *parser)
{
	int64_t align = ptx_parser_int(parser);

	if (align > 0 && align <= (int64_t)ALIGN_MAX && !(align & (align - 1)))
		return (uint32_t)align;
	ptx_parser_fail(parser, -EINVAL, "an alignment that is not a power of two, or too large");
	return 1;
}

/* .attribute(.managed) and the like. */
static void parse_attribute(struct ptx_parser *parser, struct declaration *decl)
{
	unsigned depth = 0;

	ptx_parser_expect(parser, '(');
	while (parser->lex.token.kind != PTX_TOKEN_END) {
		if (ptx_parser_accept_dot(parser, "managed")) {
			decl->is_managed = true;
			continue;
		}
		if (ptx_lex_is(&parser->lex, '('))
			depth++;
		if (ptx_lex_is(&parser->lex, ')') && depth-- == 0)
			break;
		ptx_lex_next(&parser->lex);
	}
	ptx_parser_expect(parser, ')');
}

/* .ptr .global .align 16: what a pointer parameter points to. */
static void skip_pointee(struct ptx_parser *parser)
{
	static const char *const spaces[] = {"global", "const", "shared", "local"};

	for (unsigned i = 0; i < ARRAY_SIZE(spaces); i++)
		if (ptx_parser_accept_dot(parser, spaces[i]))
			break;
	if (ptx_parser_accept_dot(parser, "align"))
		parse_align(parser);
}

static void parse_attributes(struct ptx_parser *parser, struct declaration *decl)
{
	char name[16];

	while (parser->lex.token.kind == PTX_TOKEN_DOT) {
		const struct ptx_token *token = &parser->lex.token;

		if (ptx_parser_accept_dot(parser, "align")) {
			decl->align = parse_align(parser);
		} else if (ptx_parser_accept_dot(parser, "attribute")) {
			parse_attribute(parser, decl);
		} else if (ptx_parser_accept_dot(parser, "ptr")) {
			skip_pointee(parser);
		} else if (ptx_parser_accept_dot(parser, "v2")) {
			decl->n_elements = 2;
		} else if (ptx_parser_accept_dot(parser, "v4")) {
			decl->n_elements = 4;
		} else {
			snprintf(name, sizeof(name), "%.*s", (int)MIN(token->len, (size_t)15),
				token->text);
			decl->type = ptx_type_find(name);
			if (decl->type == PTX_NONE) {
				ptx_parser_fail(parser, -ENOTSUP, "unknown type '.%s'", name);
				return;
			}
			ptx_lex_next(&parser->lex);
		}
	}
	if (decl->type == PTX_NONE)
		ptx_parser_unexpected(parser, "a type");
}

static void parse_dims(struct ptx_parser *parser, struct ptx_symbol *symbol, struct dims *dims)
{
	while (ptx_parser_accept(parser, '[')) {
		int64_t n = 0;

		if (dims->count == DIMS_MAX) {
			ptx_parser_fail(parser, -EINVAL, "too many dimensions");
			return;
		}
		if (ptx_lex_is(&parser->lex, ']') && dims->count == 0)
			symbol->is_unsized = true;
		else
			n = ptx_parser_int(parser);
		if (n < 0 || (uint64_t)n > VAR_SIZE_MAX)
			ptx_parser_fail(parser, -EINVAL, "'%s' is too large", symbol->name);
		dims->n[dims->count++] = (uint64_t)n;
		ptx_parser_expect(parser, ']');
	}
}

/* name, name+8, generic(name)+8, generic(name+8) */
static void parse_address(struct ptx_parser *parser, struct ptx_init *init)
{
	const char *word = ptx_parser_word(parser);
	int64_t offset;

	if (!strcmp(word, "generic") && ptx_parser_accept(parser, '(')) {
		word = ptx_parser_word(parser);
		offset = ptx_parser_offset(parser);
		ptx_parser_expect(parser, ')');
	} else {
		offset = 0;
	}
	offset += ptx_parser_offset(parser);
	init->symbol = word;
	init->value = (uint64_t)offset;
}

static void parse_float(struct ptx_parser *parser, enum ptx_type type, struct ptx_init *init)
{
	bool is_negative = ptx_parser_accept(parser, '-');
	const struct ptx_token *token = &parser->lex.token;
	uint32_t bits;

	if (token->kind != PTX_TOKEN_F32 && token->kind != PTX_TOKEN_F64) {
		init->value = (uint64_t)ptx_parser_int(parser);
		if (is_negative)
			init->value = -init->value;
		return;
	}
	init->value = token->value;
	if (token->kind == PTX_TOKEN_F64 && type == PTX_F32) {
		double wide;
		float narrow;

		memcpy(&wide, &token->value, sizeof(wide));
		narrow = (float)wide;
		memcpy(&bits, &narrow, sizeof(bits));
		init->value = bits;
	} else if (token->kind == PTX_TOKEN_F32 && init->size == 8) {
		ptx_parser_unexpected(parser, "a double");
	}
	if (is_negative)
		init->value ^= 1ull << (init->size * 8 - 1);
	ptx_lex_next(&parser->lex);
}

static void parse_value(
	struct ptx_parser *parser, struct ptx_symbol *symbol, uint64_t offset, uint32_t size)
{
	struct ptx_init *init = ptx_parser_alloc(parser, sizeof(*init));

	if (!init)
		return;
	init->offset = offset;
	init->size = size;
	if (parser->lex.token.kind == PTX_TOKEN_WORD) {
		parse_address(parser, init);
	} else {
		parse_float(parser, symbol->type, init);
		if (ptx_parser_accept(parser, '(')) {
			uint64_t mask = init->value;

			parse_address(parser, init);
			init->mask = mask;
			ptx_parser_expect(parser, ')');
		}
	}
	if (!range_ok(offset, size, symbol->size)) {
		ptx_parser_fail(parser, -EINVAL, "too many initial values of '%s'", symbol->name);
		return;
	}
	init->next = symbol->inits;
	symbol->inits = init;
}

/* { {1, 2}, {3} }: an inner list that ends early leaves zeroes up to its stride. */
static void parse_values(struct ptx_parser *parser, struct ptx_symbol *symbol, uint32_t size,
	const struct dims *dims)
{
	uint64_t offset = 0, begin[DIMS_MAX + 2] = {0}, stride[DIMS_MAX + 2];
	uint32_t depth = 0;

	for (unsigned d = 0; d < ARRAY_SIZE(stride); d++) {
		stride[d] = size;
		for (unsigned i = d; i < dims->count; i++)
			stride[d] *= dims->n[i];
	}
	do {
		if (ptx_parser_accept(parser, '{')) {
			begin[depth++] = offset;
		} else if (depth && ptx_parser_accept(parser, '}')) {
			depth--;
			offset = depth ? begin[depth] + stride[depth] : offset;
			ptx_parser_accept(parser, ',');
		} else {
			parse_value(parser, symbol, offset, size);
			offset += size;
			ptx_parser_accept(parser, ',');
		}
		if (depth > DIMS_MAX)
			ptx_parser_fail(parser, -EINVAL, "too many braces");
	} while (depth && parser->lex.token.kind != PTX_TOKEN_END);
	if (depth)
		ptx_parser_unexpected(parser, "'}'");
}

/* The declared size; an unsized array takes that of its values. */
static void size_variable(struct ptx_parser *parser, struct ptx_symbol *symbol,
	const struct declaration *decl, const struct dims *dims)
{
	uint64_t size = (uint64_t)ptx_type_size(decl->type) * decl->n_elements;

	symbol->align = decl->align ? decl->align : (uint32_t)size;
	for (unsigned i = symbol->is_unsized ? 1 : 0; i < dims->count; i++) {
		if (dims->n[i] && size > VAR_SIZE_MAX / dims->n[i]) {
			ptx_parser_fail(parser, -EINVAL, "'%s' is too large", symbol->name);
			return;
		}
		size *= dims->n[i];
	}
	symbol->size = symbol->is_unsized ? 0 : size;
}

static void initialise(struct ptx_parser *parser, struct ptx_symbol *symbol,
	const struct declaration *decl, const struct dims *dims)
{
	uint32_t element = ptx_type_size(decl->type);
	bool is_unsized = symbol->is_unsized;

	if (symbol->space != PTX_SPACE_GLOBAL && symbol->space != PTX_SPACE_CONST) {
		ptx_parser_fail(parser, -EINVAL, "'%s' can't have an initial value", symbol->name);
		return;
	}
	if (is_unsized)
		symbol->size = VAR_SIZE_MAX;
	parse_values(parser, symbol, element, dims);
	if (!is_unsized || !symbol->inits)
		return;
	symbol->is_unsized = false;
	symbol->size = symbol->inits->offset + symbol->inits->size;
}

static void keep_variable(struct ptx_parser *parser, struct ptx_symbol *symbol)
{
	struct ptx_function *function = parser->function;
	struct ptx_unit *unit = parser->unit;
	bool is_module =
		symbol->space == PTX_SPACE_GLOBAL || symbol->space == PTX_SPACE_CONST || !function;

	symbol->is_global_scope = !function;
	if (parser->in_params)
		return;
	if (is_module) {
		struct ptx_symbol **vars = ptx_parser_grow(
			parser, unit->vars, unit->n_vars, sizeof(struct ptx_symbol *));

		if (vars) {
			unit->vars = vars;
			vars[unit->n_vars++] = symbol;
		}
	} else if (symbol->space != PTX_SPACE_REG) {
		struct ptx_symbol **vars = ptx_parser_grow(
			parser, function->vars, function->n_vars, sizeof(struct ptx_symbol *));

		if (vars) {
			function->vars = vars;
			vars[function->n_vars++] = symbol;
		}
	}
}

/* %r<12> */
static void parse_count(struct ptx_parser *parser, struct ptx_symbol *symbol)
{
	int64_t n = ptx_parser_int(parser);

	ptx_parser_expect(parser, '>');
	if (n < 0 || n > (int64_t)REG_COUNT_MAX)
		ptx_parser_fail(parser, -EINVAL, "too many registers");
	else
		symbol->count = (uint32_t)n;
}

/* A name with an earlier extern declaration, or a new symbol. */
static struct ptx_symbol *declare(struct ptx_parser *parser, const char *name,
	enum ptx_symbol_kind kind, struct ptx_linkage linkage)
{
	struct ptx_symbol *symbol = ptx_parser_declared(parser, name, linkage);
	bool is_same = symbol && symbol->kind == kind;

	if (is_same && (symbol->is_extern || linkage.is_extern))
		return symbol;
	if (is_same && symbol->home != parser->file && (symbol->is_weak || linkage.is_weak))
		return symbol;
	if (symbol) {
		ptx_parser_fail(parser, -EINVAL, "'%s' is declared twice", name);
		return NULL;
	}
	symbol = ptx_symbol_add(parser->unit, ptx_parser_scope(parser, linkage), name, kind);
	if (!symbol)
		ptx_parser_fail(parser, -ENOMEM, "out of memory");
	return symbol;
}

/* Whether this declaration says less than an earlier one. */
static bool is_weaker(const struct ptx_symbol *known, const struct ptx_symbol *read)
{
	return !known->is_extern && (read->is_extern || read->is_weak);
}

static struct ptx_symbol *parse_declarator(
	struct ptx_parser *parser, const struct declaration *decl)
{
	bool is_reg = decl->space == PTX_SPACE_REG;
	const char *name = ptx_parser_word(parser);
	struct dims dims = {.count = 0};
	struct ptx_symbol *symbol, known;
	bool is_new;

	if (parser->log->error)
		return NULL;
	symbol = declare(parser, name, is_reg ? PTX_SYMBOL_REG : PTX_SYMBOL_VAR, decl->linkage);
	if (!symbol)
		return NULL;
	is_new = symbol->type == PTX_NONE;
	known = *symbol;
	symbol->type = decl->type;
	symbol->space = decl->space;
	symbol->line = parser->lex.line;
	symbol->is_managed = decl->is_managed;
	symbol->is_extern = decl->linkage.is_extern;
	symbol->is_weak = decl->linkage.is_weak;
	symbol->home = parser->scope;
	symbol->inits = NULL;
	if (is_reg && ptx_parser_accept(parser, '<'))
		parse_count(parser, symbol);
	parse_dims(parser, symbol, &dims);
	size_variable(parser, symbol, decl, &dims);
	if (ptx_parser_accept(parser, '='))
		initialise(parser, symbol, decl, &dims);
	if (is_new)
		keep_variable(parser, symbol);
	else if (is_weaker(&known, symbol))
		*symbol = known;
	return symbol;
}

struct ptx_symbol *ptx_parse_variables(
	struct ptx_parser *parser, enum ptx_space space, struct ptx_linkage linkage)
{
	struct declaration decl = {.space = space, .n_elements = 1, .linkage = linkage};
	struct ptx_symbol *symbol;

	parse_attributes(parser, &decl);
	if (decl.n_elements > 1 && space == PTX_SPACE_REG)
		ptx_parser_fail(parser, -ENOTSUP, "vector registers");
	symbol = parse_declarator(parser, &decl);
	/* In a parameter list, the comma belongs to the list. */
	while (!parser->in_params && !parser->log->error && ptx_parser_accept(parser, ','))
		symbol = parse_declarator(parser, &decl);
	return parser->log->error ? NULL : symbol;
}
