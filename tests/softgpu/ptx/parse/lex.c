/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The PTX lexer. Runs on the thread that loads a module; it never reads past `end',
 * for any text.
 */

#include "lex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

/* Longer than any valid literal. */
#define LITERAL_MAX 128

static bool is_word_start(char c)
{
	return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static bool is_modifier(char c)
{
	return is_word(c) || c == '.' || c == ':';
}

static void skip_comment(struct ptx_lex *lex)
{
	lex->at += 2;
	while (lex->end - lex->at >= 2 && !(lex->at[0] == '*' && lex->at[1] == '/')) {
		if (*lex->at == '\n')
			lex->line++;
		lex->at++;
	}
	lex->at = lex->end - lex->at >= 2 ? lex->at + 2 : lex->end;
}

static void skip_space(struct ptx_lex *lex)
{
	while (lex->at < lex->end) {
		size_t left = (size_t)(lex->end - lex->at);

		if (isspace((unsigned char)*lex->at)) {
			if (*lex->at++ == '\n')
				lex->line++;
		} else if (left >= 2 && !memcmp(lex->at, "//", 2)) {
			while (lex->at < lex->end && *lex->at != '\n')
				lex->at++;
		} else if (left >= 2 && !memcmp(lex->at, "/*", 2)) {
			skip_comment(lex);
		} else {
			return;
		}
	}
}

static void lex_word(struct ptx_lex *lex)
{
	const char *start = lex->at++;

	while (lex->at < lex->end && is_word(*lex->at))
		lex->at++;
	if (*start == '%' && lex->end - lex->at >= 2 && lex->at[0] == '.' &&
		strchr("xyzw", lex->at[1]) && (lex->end - lex->at == 2 || !is_word(lex->at[2])))
		lex->at += 2;
	lex->token.kind = PTX_TOKEN_WORD;
	lex->token.text = start;
	lex->token.len = (size_t)(lex->at - start);
}

static void lex_directive(struct ptx_lex *lex)
{
	const char *start = ++lex->at;

	while (lex->at < lex->end && (is_word(*lex->at) || *lex->at == ':'))
		lex->at++;
	lex->token.kind = PTX_TOKEN_DOT;
	lex->token.text = start;
	lex->token.len = (size_t)(lex->at - start);
}

static void lex_string(struct ptx_lex *lex)
{
	const char *start = ++lex->at;

	while (lex->at < lex->end && *lex->at != '"') {
		if (*lex->at == '\\' && lex->end - lex->at >= 2)
			lex->at++;
		if (*lex->at == '\n')
			lex->line++;
		lex->at++;
	}
	lex->token.kind = lex->at < lex->end ? PTX_TOKEN_STRING : PTX_TOKEN_BAD;
	lex->token.text = start;
	lex->token.len = (size_t)(lex->at - start);
	if (lex->at < lex->end)
		lex->at++;
}

static void token_double(struct ptx_token *token, const char *literal)
{
	char *rest;
	double value = strtod(literal, &rest);

	token->kind = *rest ? PTX_TOKEN_BAD : PTX_TOKEN_F64;
	memcpy(&token->value, &value, sizeof(value));
}

static void token_integer(struct ptx_token *token, const char *literal)
{
	bool is_binary = literal[0] == '0' && (literal[1] == 'b' || literal[1] == 'B');
	char *rest;

	token->kind = PTX_TOKEN_INT;
	errno = 0;
	token->value = strtoull(is_binary ? literal + 2 : literal, &rest, is_binary ? 2 : 0);
	if (*rest == 'U' || *rest == 'u')
		rest++;
	if (*rest || errno)
		token->kind = PTX_TOKEN_BAD;
}

/* The two hexadecimal forms: 0f3F800000 and 0d3FF0000000000000. */
static bool token_bits(struct ptx_token *token, const char *literal)
{
	char form = (char)tolower((unsigned char)literal[1]);
	char *rest;

	if (literal[0] != '0' || (form != 'f' && form != 'd'))
		return false;
	if (strlen(literal) != (form == 'f' ? 10 : 18) || !isxdigit((unsigned char)literal[2]))
		return false;
	token->value = strtoull(literal + 2, &rest, 16);
	token->kind = form == 'f' ? PTX_TOKEN_F32 : PTX_TOKEN_F64;
	return !*rest;
}

static void lex_number(struct ptx_lex *lex)
{
	const char *start = lex->at;
	char literal[LITERAL_MAX] = "";
	bool is_hex, is_float = false;
	size_t len;

	is_hex = lex->end - start >= 2 && start[0] == '0' && strchr("xXfFdD", start[1]);
	for (; lex->at < lex->end; lex->at++) {
		char c = *lex->at;
		bool is_exponent = !is_hex && (c == 'e' || c == 'E');
		bool is_sign = (c == '-' || c == '+') && is_float && lex->at > start &&
			       (lex->at[-1] == 'e' || lex->at[-1] == 'E');

		if (!is_word(c) && !is_sign && !(c == '.' && !is_hex))
			break;
		is_float |= is_exponent || c == '.';
	}
	len = (size_t)(lex->at - start);
	lex->token = (struct ptx_token){.kind = PTX_TOKEN_BAD, .text = start, .len = len};
	if (len >= sizeof(literal))
		return;
	memcpy(literal, start, len);
	literal[len] = '\0';
	if (is_float)
		token_double(&lex->token, literal);
	else if (!token_bits(&lex->token, literal))
		token_integer(&lex->token, literal);
}

void ptx_lex_next(struct ptx_lex *lex)
{
	skip_space(lex);
	lex->token = (struct ptx_token){.kind = PTX_TOKEN_END, .text = lex->at};
	if (lex->at >= lex->end)
		return;
	if (is_word_start(*lex->at)) {
		lex_word(lex);
	} else if (isdigit((unsigned char)*lex->at)) {
		lex_number(lex);
	} else if (*lex->at == '.' && lex->end - lex->at >= 2 && is_word_start(lex->at[1])) {
		lex_directive(lex);
	} else if (*lex->at == '"') {
		lex_string(lex);
	} else {
		lex->token.kind = PTX_TOKEN_PUNCT;
		lex->token.len = 1;
		lex->at++;
	}
}

void ptx_lex_init(struct ptx_lex *lex, const char *text, size_t len)
{
	*lex = (struct ptx_lex){.at = text, .end = text + len, .line = 1};
	ptx_lex_next(lex);
}

void ptx_lex_opcode(struct ptx_lex *lex)
{
	if (lex->at >= lex->end || *lex->at != '.')
		return;
	while (lex->at < lex->end && is_modifier(*lex->at))
		lex->at++;
	lex->token.len = (size_t)(lex->at - lex->token.text);
}

void ptx_lex_skip_line(struct ptx_lex *lex)
{
	while (lex->at < lex->end && *lex->at != '\n')
		lex->at++;
	ptx_lex_next(lex);
}

bool ptx_lex_is(const struct ptx_lex *lex, char punct)
{
	return lex->token.kind == PTX_TOKEN_PUNCT && *lex->token.text == punct;
}

bool ptx_token_is(const struct ptx_token *token, enum ptx_token_kind kind, const char *text)
{
	return token->kind == kind && token->len == strlen(text) &&
	       !memcmp(token->text, text, token->len);
}
