/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The variables of __managed__ in cubins.
 *
 * Invariant: cubin_file.h checks what is read. A write may hit a name, which ends with the file at
 * the latest.
 */

#include "cubin.h"

#include <string.h>

#include "cubin_file.h"

/* As the driver places its own memory. */
#define VARIABLE_ALIGN 256u
#define VARIABLES_SIZE_MAX (1ull << 40)
#define VARIABLES_MAX 65536u

uint64_t cubin_variables(const uint8_t *bytes, size_t size)
{
	struct cubin_file file;
	Elf64_Shdr section, names;
	uint64_t total = 0;

	if (cubin_file_begin((uint8_t *)(uintptr_t)bytes, size, &file) < 0 ||
		cubin_file_section(&file, file.head.e_shstrndx, &names) < 0)
		return 0;
	for (uint32_t i = 0; i < file.head.e_shnum; i++)
		if (cubin_file_section(&file, i, &section) == 0 &&
			cubin_file_is_of_variables(&file, &section, &names) &&
			__builtin_add_overflow(total, section.sh_size, &total))
			return UINT64_MAX;
	return total;
}

static bool cubin_is_managed(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && (symbol->st_other & CUBIN_MANAGED);
}

static int find_initial(
	const struct cubin_file *file, const Elf64_Sym *symbol, const uint8_t **ret_initial)
{
	Elf64_Shdr section;
	uint64_t offset;
	int r = cubin_file_section(file, symbol->st_shndx, &section);

	if (r < 0)
		return r;
	*ret_initial = NULL;
	if (section.sh_type == SHT_NOBITS)
		return 0;
	offset = symbol->st_value - section.sh_addr;
	if (section.sh_type != SHT_PROGBITS || !range_ok(offset, symbol->st_size, section.sh_size))
		return -ENOTSUP;
	*ret_initial = file->bytes + section.sh_offset + offset;
	return 0;
}

static int add_variable(struct cubin *cubin, const struct cubin_file *file, uint32_t i)
{
	struct cubin_variable *variable = &cubin->variables[cubin->n_variables];
	Elf64_Sym symbol;
	int r;

	cubin_file_symbol(file, i, &symbol);
	if (symbol.st_size == 0 || symbol.st_size > VARIABLES_SIZE_MAX)
		return -ENOTSUP;
	*variable = (struct cubin_variable){
		.name = cubin_file_name(file, &symbol),
		.size = symbol.st_size,
		.offset = ALIGN_UP(cubin->total, (uint64_t)VARIABLE_ALIGN),
		.symbol = i,
	};
	if (!variable->name)
		return -EBADMSG;
	r = find_initial(file, &symbol, &variable->initial);
	if (r < 0)
		return r;
	cubin->total = variable->offset + variable->size;
	if (cubin->total > VARIABLES_SIZE_MAX)
		return -ENOTSUP;
	cubin->n_variables++;
	return 0;
}

static int find_variables(struct cubin *cubin, const struct cubin_file *file)
{
	uint32_t n = cubin_file_n_symbols(file), n_managed = 0;
	Elf64_Sym symbol;
	int r = 0;

	for (uint32_t i = 0; i < n; i++) {
		cubin_file_symbol(file, i, &symbol);
		n_managed += cubin_is_managed(&symbol);
	}
	if (n_managed > VARIABLES_MAX)
		return -ENOTSUP;
	cubin->variables = calloc(MAX(n_managed, 1u), sizeof(*cubin->variables));
	if (!cubin->variables)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && r == 0; i++) {
		cubin_file_symbol(file, i, &symbol);
		if (cubin_is_managed(&symbol))
			r = add_variable(cubin, file, i);
	}
	return r;
}

int cubin_read(uint8_t *bytes, size_t size, struct cubin *ret_cubin)
{
	struct cubin cubin = {.size = size};
	struct cubin_file file;
	int r = cubin_file_open(bytes, size, &file);

	if (r == 0)
		r = find_variables(&cubin, &file);
	if (r < 0) {
		cubin_fini(&cubin);
		return r;
	}
	cubin.bytes = bytes;
	*ret_cubin = cubin;
	return 0;
}

const struct cubin_variable *cubin_find(const struct cubin *cubin, const char *name)
{
	for (uint32_t i = 0; i < cubin->n_variables; i++)
		if (strcmp(cubin->variables[i].name, name) == 0)
			return &cubin->variables[i];
	return NULL;
}

void cubin_initialise(const struct cubin *cubin, uint8_t *memory)
{
	for (uint32_t i = 0; i < cubin->n_variables; i++) {
		const struct cubin_variable *variable = &cubin->variables[i];

		if (variable->initial)
			memcpy(memory + variable->offset, variable->initial, variable->size);
	}
}

void cubin_fini(struct cubin *cubin)
{
	free(cubin->bytes);
	free(cubin->variables);
	*cubin = (struct cubin){0};
}

/* ---- placing them */

struct placing {
	struct cubin *cubin;
	struct cubin_file file;
	uint64_t address;
};

static int compare_symbol(const void *symbol, const void *variable)
{
	uint64_t a = *(const uint64_t *)symbol,
		 b = ((const struct cubin_variable *)variable)->symbol;

	return (a > b) - (a < b);
}

/* The variable of a symbol. Variables are in the order of their symbols. */
static const struct cubin_variable *variable_of(const struct cubin *cubin, uint64_t symbol)
{
	return bsearch(&symbol, cubin->variables, cubin->n_variables, sizeof(*cubin->variables),
		compare_symbol);
}

static int find_address(void *arg, _unused_ const struct cubin_file *file,
	_unused_ const struct cubin_table *table, const Elf64_Rela *relocation,
	uint64_t *ret_address)
{
	const struct placing *placing = arg;
	const struct cubin_variable *variable =
		variable_of(placing->cubin, ELF64_R_SYM(relocation->r_info));

	if (!variable)
		return 0;
	*ret_address = placing->address + variable->offset;
	return 1;
}

/* For the driver they become ordinary variables that are not used. */
static void make_plain(const struct placing *placing)
{
	for (uint32_t i = 0; i < placing->cubin->n_variables; i++) {
		uint8_t *at = placing->file.bytes + placing->file.symbols.sh_offset +
			      placing->cubin->variables[i].symbol * sizeof(Elf64_Sym);

		at[offsetof(Elf64_Sym, st_other)] &= (uint8_t)~CUBIN_MANAGED;
	}
}

int cubin_place(struct cubin *cubin, uint64_t address, uint64_t size)
{
	struct placing placing = {.cubin = cubin, .address = address};
	int r = cubin->total > size ? -ENOSPC
				    : cubin_file_open(cubin->bytes, cubin->size, &placing.file);

	if (r == 0)
		r = cubin_file_resolve(&placing.file, find_address, &placing);
	if (r == 0)
		make_plain(&placing);
	return r;
}
