/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The symbols of a PTX module in its scopes, in one hash table keyed by scope
 * and name. Runs on the thread that loads a module.
 */

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "parse.h"

#define SYMBOL_BUCKETS_MIN 256u

int ptx_log_fail(struct ptx_log *log, int error, uint32_t line, const char *format, ...)
{
	va_list args;
	int n = 0;

	if (log->error)
		return log->error;
	log->error = error;
	if (!log->text || !log->size)
		return error;
	if (line)
		n = snprintf(log->text, log->size, "line %u: ", line);
	va_start(args, format);
	if (n >= 0 && (size_t)n < log->size)
		vsnprintf(log->text + n, log->size - (size_t)n, format, args);
	va_end(args);
	return error;
}

static uint32_t symbol_hash(const struct ptx_scope *scope, const char *name, size_t len)
{
	uint64_t h = (uintptr_t)scope * 0x9e3779b97f4a7c15ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3ull;
	return (uint32_t)(h ^ h >> 32);
}

static int symbols_grow(struct ptx_unit *unit, uint32_t n)
{
	struct ptx_symbol **buckets = calloc(n, sizeof(struct ptx_symbol *));

	if (!buckets)
		return -ENOMEM;
	for (uint32_t i = 0; i < unit->n_buckets; i++) {
		struct ptx_symbol *symbol = unit->buckets[i];

		while (symbol) {
			struct ptx_symbol *next = symbol->next;
			uint32_t at =
				symbol_hash(symbol->scope, symbol->name, strlen(symbol->name)) &
				(n - 1);

			symbol->next = buckets[at];
			buckets[at] = symbol;
			symbol = next;
		}
	}
	free(unit->buckets);
	unit->buckets = buckets;
	unit->n_buckets = n;
	return 0;
}

struct ptx_symbol *ptx_symbol_add(struct ptx_unit *unit, const struct ptx_scope *scope,
	const char *name, enum ptx_symbol_kind kind)
{
	struct ptx_symbol *symbol = ptx_arena_alloc(&unit->arena, sizeof(*symbol));
	uint32_t at;

	if (!symbol)
		return NULL;
	if (unit->n_symbols >= unit->n_buckets) {
		uint32_t n = MAX(SYMBOL_BUCKETS_MIN, unit->n_buckets * 2);

		if (symbols_grow(unit, n) < 0)
			return NULL;
	}
	symbol->scope = scope;
	symbol->name = name;
	symbol->kind = kind;
	at = symbol_hash(scope, name, strlen(name)) & (unit->n_buckets - 1);
	symbol->next = unit->buckets[at];
	unit->buckets[at] = symbol;
	unit->n_symbols++;
	return symbol;
}

static struct ptx_symbol *find_in(
	const struct ptx_unit *unit, const struct ptx_scope *scope, const char *name, size_t len)
{
	struct ptx_symbol *symbol;

	if (!unit->n_buckets)
		return NULL;
	symbol = unit->buckets[symbol_hash(scope, name, len) & (unit->n_buckets - 1)];
	for (; symbol; symbol = symbol->next)
		if (symbol->scope == scope && !strncmp(symbol->name, name, len) &&
			!symbol->name[len])
			return symbol;
	return NULL;
}

struct ptx_symbol *ptx_symbol_find_in(
	const struct ptx_unit *unit, const struct ptx_scope *scope, const char *name)
{
	return find_in(unit, scope, name, strlen(name));
}

/* `%r12' may be number 12 of `%r<20>', or number 2 of `%r1<3>'. */
static struct ptx_symbol *find_range(const struct ptx_unit *unit, const struct ptx_scope *scope,
	const char *name, size_t len, uint32_t *ret_index)
{
	uint64_t index = 0, scale = 1;
	size_t n = len;

	while (n > 1 && isdigit((unsigned char)name[n - 1]) && scale < 10000000000ull) {
		struct ptx_symbol *symbol;

		index += (uint64_t)(name[n - 1] - '0') * scale;
		scale *= 10;
		n--;
		symbol = find_in(unit, scope, name, n);
		if (symbol && symbol->kind == PTX_SYMBOL_REG && index < symbol->count) {
			*ret_index = (uint32_t)index;
			return symbol;
		}
	}
	return NULL;
}

struct ptx_symbol *ptx_symbol_find(const struct ptx_unit *unit, const struct ptx_scope *scope,
	const char *name, uint32_t *ret_index)
{
	size_t len = strlen(name);

	*ret_index = 0;
	for (; scope; scope = scope->parent) {
		struct ptx_symbol *symbol = find_in(unit, scope, name, len);

		if (symbol && !(symbol->kind == PTX_SYMBOL_REG && symbol->count))
			return symbol;
		symbol = find_range(unit, scope, name, len, ret_index);
		if (symbol)
			return symbol;
	}
	return NULL;
}
