/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The PTX parser: a module's directives and the heads of its functions. Runs on the
 * thread that loads a module; for any text the result is a unit or a message.
 */

#include "parse.h"

#include <ctype.h>
#include <string.h>

#include "base.h"
#include "parser.h"

static struct ptx_symbol *declare_function(
	struct ptx_parser *parser, const char *name, struct ptx_linkage linkage)
{
	struct ptx_symbol *symbol = ptx_parser_declared(parser, name, linkage);

	if (symbol && symbol->kind == PTX_SYMBOL_FUNC)
		return symbol;
	if (symbol) {
		ptx_parser_fail(parser, -EINVAL, "'%s' is declared twice", name);
		return NULL;
	}
	symbol = ptx_symbol_add(
		parser->unit, ptx_parser_scope(parser, linkage), name, PTX_SYMBOL_FUNC);
	if (!symbol) {
		ptx_parser_fail(parser, -ENOMEM, "out of memory");
		return NULL;
	}
	symbol->home = parser->file;
	symbol->function = ptx_parser_alloc(parser, sizeof(*symbol->function));
	if (symbol->function)
		symbol->function->symbol = symbol;
	return symbol->function ? symbol : NULL;
}

/* The inside of a head's parentheses. */
static void parse_params(
	struct ptx_parser *parser, struct ptx_symbol ***ret_params, uint32_t *ret_n)
{
	struct ptx_symbol **params = NULL;
	uint32_t n = 0;

	parser->in_params = true;
	while (parser->lex.token.kind == PTX_TOKEN_DOT) {
		bool is_reg = ptx_parser_accept_dot(parser, "reg");
		struct ptx_symbol *param;

		if (!is_reg && !ptx_parser_accept_dot(parser, "param")) {
			ptx_parser_unexpected(parser, "'.param'");
			break;
		}
		/* The parameters of a prototype may all be called _. */
		if (parser->function)
			ptx_parser_push(parser);
		param = ptx_parse_variables(
			parser, is_reg ? PTX_SPACE_REG : PTX_SPACE_PARAM, (struct ptx_linkage){0});
		if (parser->function)
			ptx_parser_pop(parser);
		params = param ? ptx_parser_grow(parser, params, n, sizeof(struct ptx_symbol *))
			       : NULL;
		if (!params)
			break;
		if (param->is_unsized) {
			ptx_parser_fail(parser, -ENOTSUP, "'%s' has no size", param->name);
			break;
		}
		params[n++] = param;
		if (!ptx_parser_accept(parser, ','))
			break;
	}
	parser->in_params = false;
	ptx_parser_expect(parser, ')');
	*ret_params = params;
	*ret_n = n;
}

/* x, y, z of .maxntid and .reqntid */
static uint32_t parse_product(struct ptx_parser *parser)
{
	uint64_t product = 1;

	do {
		int64_t n = ptx_parser_int(parser);

		if (n < 1 || n > 1024 || product * (uint64_t)n > 1024) {
			ptx_parser_fail(parser, -EINVAL, "more threads than a block can have");
			return 0;
		}
		product *= (uint64_t)n;
	} while (ptx_parser_accept(parser, ','));
	return (uint32_t)product;
}

/* x{, y{, z}} */
static void parse_cluster(struct ptx_parser *parser, uint32_t *cluster)
{
	uint32_t n = 0;

	cluster[0] = cluster[1] = cluster[2] = 1;
	do {
		int64_t size = ptx_parser_int(parser);

		if (n == 3 || size < 1 || size > UINT16_MAX) {
			ptx_parser_fail(parser, -EINVAL, "a cluster that no device has");
			return;
		}
		cluster[n++] = (uint32_t)size;
	} while (ptx_parser_accept(parser, ','));
}

static void parse_tuning(struct ptx_parser *parser, struct ptx_function *function)
{
	static const char *const with_number[] = {"minnctapersm", "maxnctapersm", "maxclusterrank"};

	if (ptx_parser_accept_dot(parser, "maxntid") || ptx_parser_accept_dot(parser, "reqntid")) {
		function->max_threads = parse_product(parser);
		return;
	}
	if (ptx_parser_accept_dot(parser, "maxnreg")) {
		int64_t n = ptx_parser_int(parser);

		function->max_regs = (uint32_t)MIN(MAX(n, INT64_C(0)), (int64_t)UINT16_MAX);
		return;
	}
	if (ptx_parser_accept_dot(parser, "reqnctapercluster")) {
		parse_cluster(parser, function->cluster);
		return;
	}
	if (ptx_parser_accept_dot(parser, "explicitcluster") ||
		ptx_parser_accept_dot(parser, "noreturn") || ptx_parser_skip_debug(parser))
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(with_number); i++) {
		if (ptx_parser_accept_dot(parser, with_number[i])) {
			ptx_parser_int(parser);
			return;
		}
	}
	ptx_parser_fail(parser, -ENOTSUP, "unknown directive '.%.*s' of '%s'",
		(int)MIN(parser->lex.token.len, (size_t)80), parser->lex.token.text,
		function->symbol->name);
}

static void link_function(struct ptx_unit *unit, struct ptx_function *function)
{
	if (!unit->functions_tail)
		unit->functions_tail = &unit->functions;
	*unit->functions_tail = function;
	unit->functions_tail = &function->next;
}

static void unlink_function(struct ptx_unit *unit, struct ptx_function *function)
{
	struct ptx_function **link = &unit->functions;

	while (*link != function)
		link = &(*link)->next;
	*link = function->next;
	if (unit->functions_tail == &function->next)
		unit->functions_tail = link;
}

/* The function to which a body belongs; NULL after a failure. */
static struct ptx_function *define_function(
	struct ptx_parser *parser, struct ptx_symbol *symbol, struct ptx_linkage linkage)
{
	struct ptx_function *known = symbol->function;

	if (!known->has_body)
		return known;
	if (symbol->home == parser->file || (!linkage.is_weak && !symbol->is_weak)) {
		ptx_parser_fail(parser, -EINVAL, "'%s' is defined twice", symbol->name);
		return NULL;
	}
	/* A second weak definition is dropped; any other definition replaces a weak one. */
	if (!linkage.is_weak) {
		unlink_function(parser->unit, known);
		*known = (struct ptx_function){.symbol = symbol};
		return known;
	}
	return ptx_parser_alloc(parser, sizeof(struct ptx_function));
}

static void parse_function_body(
	struct ptx_parser *parser, const struct ptx_function *head, struct ptx_linkage linkage)
{
	struct ptx_symbol *symbol = head->symbol;
	struct ptx_function *function = define_function(parser, symbol, linkage);

	if (!function)
		return;
	*function = *head;
	function->has_body = true;
	parser->function = function;
	ptx_parse_body(parser);
	parser->function = NULL;
	if (function != symbol->function)
		return;
	link_function(parser->unit, function);
	symbol->home = parser->file;
	symbol->is_weak = linkage.is_weak;
}

static struct ptx_symbol *parse_head(
	struct ptx_parser *parser, struct ptx_function *head, struct ptx_linkage linkage)
{
	ptx_parser_push(parser);
	head->scope = parser->scope;
	if (!head->is_entry && ptx_parser_accept(parser, '('))
		parse_params(parser, &head->results, &head->n_results);
	parser->scope = parser->file;
	head->symbol = declare_function(parser, ptx_parser_word(parser), linkage);
	parser->scope = head->scope;
	if (parser->log->error || !head->symbol)
		return NULL;
	if (ptx_parser_accept(parser, '('))
		parse_params(parser, &head->params, &head->n_params);
	while (parser->lex.token.kind == PTX_TOKEN_DOT)
		parse_tuning(parser, head);
	return head->symbol;
}

static bool are_same(struct ptx_symbol **some, uint32_t n, struct ptx_symbol **others, uint32_t m)
{
	for (uint32_t i = 0; i < n && n == m; i++)
		if (some[i]->size != others[i]->size)
			return false;
	return n == m;
}

/*
 * A compiler compares the declarations in a text, even without a call. A linker compares
 * those of several texts only where there are calls, which the translator checks.
 */
static void check_head(struct ptx_parser *parser, const struct ptx_function *head)
{
	const struct ptx_function *known = head->symbol->function;

	if (!known->scope || known->scope->parent != parser->file || head->is_entry)
		return;
	if (!are_same(known->params, known->n_params, head->params, head->n_params) ||
		!are_same(known->results, known->n_results, head->results, head->n_results))
		ptx_parser_fail(parser, -EINVAL,
			"'%s' is declared with different parameters or results",
			head->symbol->name);
}

void ptx_parse_function(struct ptx_parser *parser, bool is_entry, struct ptx_linkage linkage)
{
	struct ptx_function head = {.is_entry = is_entry};
	struct ptx_symbol *symbol = parse_head(parser, &head, linkage);

	if (!symbol)
		return;
	check_head(parser, &head);
	if (ptx_parser_accept(parser, '{')) {
		parse_function_body(parser, &head, linkage);
	} else {
		ptx_parser_expect(parser, ';');
		if (!symbol->function->has_body)
			*symbol->function = head;
	}
	parser->scope = parser->file;
}

struct ptx_function *ptx_parse_prototype(struct ptx_parser *parser)
{
	struct ptx_function *prototype = ptx_parser_alloc(parser, sizeof(*prototype));

	if (!prototype)
		return NULL;
	if (ptx_parser_accept(parser, '('))
		parse_params(parser, &prototype->results, &prototype->n_results);
	ptx_parser_word(parser);
	if (ptx_parser_accept(parser, '('))
		parse_params(parser, &prototype->params, &prototype->n_params);
	ptx_parser_accept_dot(parser, "noreturn");
	ptx_parser_expect(parser, ';');
	return prototype;
}

/* .target sm_90a, texmode_independent */
static void parse_target(struct ptx_parser *parser)
{
	uint32_t arch = 0;

	do {
		const char *word = ptx_parser_word(parser);

		if (!strncmp(word, "sm_", 3))
			for (word += 3; isdigit((unsigned char)*word); word++)
				arch = (arch * 10 + (uint32_t)(*word - '0')) % 1000;
	} while (ptx_parser_accept(parser, ','));
	parser->unit->arch = MAX(parser->unit->arch, arch);
}

/* .alias name, function; */
static void parse_alias(struct ptx_parser *parser)
{
	/* Both were declared before. */
	const struct ptx_linkage any = {.is_global = true};
	struct ptx_symbol *alias = declare_function(parser, ptx_parser_word(parser), any);
	struct ptx_symbol *target;

	ptx_parser_expect(parser, ',');
	target = declare_function(parser, ptx_parser_word(parser), any);
	ptx_parser_expect(parser, ';');
	/* Another text may have declared it already. */
	if (parser->log->error || alias->function == target->function)
		return;
	if (!target->function->has_body || alias->function->has_body)
		ptx_parser_fail(parser, -EINVAL, "'%s' can't be another name of '%s'", alias->name,
			target->name);
	else
		alias->function = target->function;
}

/* .section .debug_str { ... } */
static void skip_section(struct ptx_parser *parser)
{
	while (!ptx_lex_is(&parser->lex, '{') && parser->lex.token.kind != PTX_TOKEN_END)
		ptx_lex_next(&parser->lex);
	while (!ptx_lex_is(&parser->lex, '}') && parser->lex.token.kind != PTX_TOKEN_END)
		ptx_lex_next(&parser->lex);
	ptx_parser_expect(parser, '}');
}

static void parse_declaration(struct ptx_parser *parser)
{
	static const struct {
		const char *name;
		enum ptx_space space;
	} spaces[] = {
		{"global", PTX_SPACE_GLOBAL},
		{"const", PTX_SPACE_CONST},
		{"shared", PTX_SPACE_SHARED},
	};
	struct ptx_linkage linkage = {0};

	for (;; linkage.is_global = true) {
		if (ptx_parser_accept_dot(parser, "extern"))
			linkage.is_extern = true;
		else if (ptx_parser_accept_dot(parser, "weak") ||
			 ptx_parser_accept_dot(parser, "common"))
			linkage.is_weak = true;
		else if (!ptx_parser_accept_dot(parser, "visible"))
			break;
	}
	if (ptx_parser_accept_dot(parser, "entry")) {
		/* A kernel is found by its name, whatever its linkage is. */
		linkage.is_global = true;
		ptx_parse_function(parser, true, linkage);
		return;
	}
	if (ptx_parser_accept_dot(parser, "func")) {
		ptx_parse_function(parser, false, linkage);
		return;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(spaces); i++) {
		if (!ptx_parser_accept_dot(parser, spaces[i].name))
			continue;
		ptx_parse_variables(parser, spaces[i].space, linkage);
		ptx_parser_expect(parser, ';');
		return;
	}
	if (parser->lex.token.kind == PTX_TOKEN_DOT)
		ptx_parser_fail(parser, -ENOTSUP, "unknown directive '.%.*s'",
			(int)MIN(parser->lex.token.len, (size_t)80), parser->lex.token.text);
	else
		ptx_parser_unexpected(parser, "a directive");
}

static void parse_module(struct ptx_parser *parser)
{
	while (parser->lex.token.kind != PTX_TOKEN_END) {
		if (ptx_parser_accept_dot(parser, "target"))
			parse_target(parser);
		else if (ptx_parser_accept_dot(parser, "alias"))
			parse_alias(parser);
		else if (ptx_parser_accept_dot(parser, "section"))
			skip_section(parser);
		else if (ptx_parser_accept_dot(parser, "address_size")) {
			if (ptx_parser_int(parser) != 64)
				ptx_parser_fail(parser, -ENOTSUP, "addresses that are not 64 bits");
		} else if (!ptx_parser_skip_debug(parser) && !ptx_parser_accept(parser, ';'))
			parse_declaration(parser);
	}
}

int ptx_parse(struct ptx_unit *unit, const char *text, size_t len, struct ptx_log *log)
{
	struct ptx_scope *file = ptx_arena_alloc(&unit->arena, sizeof(*file));
	struct ptx_parser parser = {.unit = unit, .log = log, .file = file, .scope = file};

	if (!file)
		return ptx_log_fail(log, -ENOMEM, 0, "out of memory");
	file->parent = &unit->root;
	ptx_lex_init(&parser.lex, text, len);
	if (!ptx_parser_accept_dot(&parser, "version"))
		return ptx_log_fail(log, -EINVAL, 1, "no '.version' at the start");
	if (parser.lex.token.kind != PTX_TOKEN_F64)
		return ptx_log_fail(log, -EINVAL, 1, "no number after '.version'");
	ptx_lex_next(&parser.lex);
	parse_module(&parser);
	if (!log->error && !unit->arch)
		return ptx_log_fail(log, -EINVAL, parser.lex.line, "no '.target'");
	return log->error;
}

void ptx_unit_complete(struct ptx_unit *unit)
{
	for (uint32_t i = 0; i < unit->n_vars; i++)
		unit->vars[i]->is_extern &= unit->vars[i]->is_unsized;
}

void ptx_unit_fini(struct ptx_unit *unit)
{
	ptx_arena_fini(&unit->arena);
	free(unit->buckets);
	unit->buckets = NULL;
}
