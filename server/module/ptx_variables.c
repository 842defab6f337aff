/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads declarations from PTX. Any thread.
 *
 * Invariant: no byte beyond the text is read, and each step advances in it. So any text
 * takes time in proportion to its length at most.
 */

#include "ptx_variables.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"

#define NUMBER_MAX 32

struct token {
	const char *at;
	size_t size; /* 0: end of the text */
};

struct scanner {
	const char *at, *end;
};

/* A declaration, which can declare several variables. */
struct declaration {
	uint64_t bits, vector;
	uint64_t count, n_initial; /* elements: as declared, or counted after `=' */
	bool is_managed, is_open;  /* is_open: the first dimension has n_initial elements */
};

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '%' || c == '.';
}

static bool ptx_begins(const struct scanner *scanner, const char *what)
{
	size_t size = strlen(what);

	return (size_t)(scanner->end - scanner->at) >= size && memcmp(scanner->at, what, size) == 0;
}

/* Skips to after the next `what', or to the end. */
static void skip_past(struct scanner *scanner, const char *what)
{
	while (scanner->at < scanner->end && !ptx_begins(scanner, what))
		scanner->at++;
	if (scanner->at < scanner->end)
		scanner->at += strlen(what);
}

static void skip_blanks(struct scanner *scanner)
{
	while (scanner->at < scanner->end) {
		if (ptx_begins(scanner, "//"))
			skip_past(scanner, "\n");
		else if (ptx_begins(scanner, "/*"))
			skip_past(scanner, "*/");
		else if (strchr(" \t\r\n\f\v", *scanner->at))
			scanner->at++;
		else
			return;
	}
}

/* A word, a string in quotes, or another character. */
static struct token ptx_next(struct scanner *scanner)
{
	struct token token;

	skip_blanks(scanner);
	token.at = scanner->at;
	if (scanner->at < scanner->end && *scanner->at == '"') {
		scanner->at++;
		skip_past(scanner, "\"");
	} else if (scanner->at < scanner->end && !is_word(*scanner->at)) {
		scanner->at++;
	} else {
		while (scanner->at < scanner->end && is_word(*scanner->at))
			scanner->at++;
	}
	token.size = (size_t)(scanner->at - token.at);
	return token;
}

static bool ptx_is(struct token token, const char *what)
{
	return token.size == strlen(what) && memcmp(token.at, what, token.size) == 0;
}

static uint64_t ptx_number(struct token token)
{
	char text[NUMBER_MAX];

	if (token.size >= sizeof(text))
		return 0;
	memcpy(text, token.at, token.size);
	text[token.size] = '\0';
	return strtoull(text, NULL, 0);
}

static uint64_t ptx_multiply(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t ptx_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Skips from after a bracket to after its closing bracket. Returns the commas between. */
static uint64_t skip_brackets(struct scanner *scanner, bool *ret_has_managed)
{
	uint64_t depth = 1, n_commas = 0;
	struct token token;

	while (depth > 0 && (token = ptx_next(scanner)).size > 0) {
		char c = 'x';

		if (token.size == 1)
			c = *token.at;

		depth += c == '(' || c == '{' || c == '[';
		depth -= c == ')' || c == '}' || c == ']';
		n_commas += c == ',';
		if (ret_has_managed && ptx_is(token, ".managed"))
			*ret_has_managed = true;
	}
	return n_commas;
}

/* The last number in a type is its size in bits, except for pairs: ".u32", ".f16x2". */
static uint64_t bits_of(struct token type)
{
	uint64_t bits = 0;
	size_t i = 1;

	while (i < type.size && (type.at[i] < '0' || type.at[i] > '9'))
		i++;
	for (; i < type.size && type.at[i] >= '0' && type.at[i] <= '9' && bits < 1000; i++)
		bits = 10 * bits + (uint64_t)(type.at[i] - '0');
	return i + 2 == type.size && type.at[i] == 'x' && type.at[i + 1] == '2' ? 2 * bits : bits;
}

static void read_dimension(struct scanner *scanner, struct declaration *declaration)
{
	struct token token = ptx_next(scanner);

	if (ptx_is(token, "]")) {
		declaration->is_open = true;
		return;
	}
	declaration->count = ptx_multiply(declaration->count, ptx_number(token));
	while (token.size > 0 && !ptx_is(token, "]"))
		token = ptx_next(scanner);
}

static void read_directive(
	struct scanner *scanner, struct token token, struct declaration *declaration)
{
	if (ptx_is(token, ".align"))
		(void)ptx_next(scanner);
	else if (ptx_is(token, ".v2") || ptx_is(token, ".v4") || ptx_is(token, ".v8"))
		declaration->vector = (uint64_t)(token.at[2] - '0');
	else if (!ptx_is(token, ".attribute"))
		declaration->bits = bits_of(token);
}

static uint64_t bytes_of(const struct declaration *declaration)
{
	uint64_t n = declaration->count;

	if (declaration->is_managed)
		return 0;
	if (declaration->is_open)
		n = declaration->n_initial ? MAX(n, declaration->n_initial) : 0;
	return ptx_multiply(ptx_multiply(n, declaration->vector), declaration->bits / 8);
}

/* Reads from after ".global" to after the semicolon. */
static uint64_t read_declaration(struct scanner *scanner)
{
	struct declaration declaration = {.vector = 1, .count = 1};
	uint64_t bytes = 0;
	struct token token;

	while ((token = ptx_next(scanner)).size > 0 && !ptx_is(token, ";")) {
		if (ptx_is(token, ",")) {
			bytes = ptx_add(bytes, bytes_of(&declaration));
			declaration.count = 1;
			declaration.n_initial = 0;
			declaration.is_open = false;
		} else if (ptx_is(token, "[")) {
			read_dimension(scanner, &declaration);
		} else if (ptx_is(token, "{")) {
			declaration.n_initial = 1 + skip_brackets(scanner, NULL);
		} else if (ptx_is(token, "(")) {
			(void)skip_brackets(scanner, &declaration.is_managed);
		} else if (*token.at == '.' && token.size > 1) {
			read_directive(scanner, token, &declaration);
		}
	}
	return ptx_add(bytes, bytes_of(&declaration));
}

/* Also of variables that a function's body declares. */
uint64_t ptx_variables(const char *text, size_t size, bool is_whole)
{
	struct scanner scanner = {text, text + size};
	bool is_extern = false;
	uint64_t bytes = 0;
	struct token token;

	while ((token = ptx_next(&scanner)).size > 0) {
		if (ptx_is(token, "(") || ptx_is(token, "[")) {
			(void)skip_brackets(&scanner, NULL);
		} else if (ptx_is(token, ".global")) {
			uint64_t more = read_declaration(&scanner);

			bytes = is_extern && !is_whole ? bytes : ptx_add(bytes, more);
			is_extern = false;
		} else if (ptx_is(token, ".extern")) {
			is_extern = true;
		} else if (ptx_is(token, ";") || ptx_is(token, ".func") ||
			   ptx_is(token, ".visible")) {
			is_extern = false;
		}
	}
	return bytes;
}
