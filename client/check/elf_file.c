/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads ELF files. Main thread.
 *
 * Invariant: every access goes through piece(), which knows the file's size.
 */

#include "elf_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

/* NULL: outside the file. */
static const void *piece(const struct elf_file *file, uint64_t offset, uint64_t size)
{
	return range_ok(offset, size, file->size) ? file->bytes + offset : NULL;
}

static bool table_at(
	const struct elf_file *file, uint64_t offset, unsigned i, void *ret, size_t size)
{
	uint64_t at;
	const void *entry = NULL;

	if (!__builtin_add_overflow(offset, (uint64_t)i * size, &at))
		entry = piece(file, at, size);
	if (entry)
		memcpy(ret, entry, size);
	return entry;
}

static bool segment_at(const struct elf_file *file, unsigned i, Elf64_Phdr *ret)
{
	return i < file->head.e_phnum && table_at(file, file->head.e_phoff, i, ret, sizeof(*ret));
}

static bool section_at(const struct elf_file *file, unsigned i, Elf64_Shdr *ret)
{
	return i < file->head.e_shnum && table_at(file, file->head.e_shoff, i, ret, sizeof(*ret));
}

int elf_file_init(struct elf_file *file, const uint8_t *bytes, size_t size)
{
	const uint8_t *ident = bytes;

	*file = (struct elf_file){.bytes = bytes, .size = size};
	if (size < EI_NIDENT || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return ELF_FILE_NONE;
	if (ident[EI_CLASS] == ELFCLASS32)
		return ELF_FILE_32;
	if (!table_at(file, 0, 0, &file->head, sizeof(file->head)) ||
		ident[EI_CLASS] != ELFCLASS64 || file->head.e_phnum == 0 ||
		file->head.e_phentsize != sizeof(Elf64_Phdr) ||
		(file->head.e_shnum > 0 && file->head.e_shentsize != sizeof(Elf64_Shdr)))
		return ELF_FILE_DAMAGED;
	return file->head.e_machine == MACHINE ? 0 : ELF_FILE_MACHINE;
}

int elf_file_open(struct elf_file *file, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	void *bytes;
	off_t size;

	*file = (struct elf_file){0};
	if (fd < 0)
		return -errno;
	size = lseek(fd, 0, SEEK_END);
	if (size < 0)
		return -errno;
	if (size == 0)
		return ELF_FILE_NONE;
	bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	return elf_file_init(file, bytes, (size_t)size);
}

void elf_file_close(struct elf_file *file)
{
	if (file->bytes)
		munmap((void *)file->bytes, file->size);
	file->bytes = NULL;
}

/* A string that ends within its table. */
static const char *string_at(
	const struct elf_file *file, uint64_t table, uint64_t size, uint64_t at)
{
	const char *strings = piece(file, table, size);

	if (!strings || at >= size || !memchr(strings + at, 0, size - at))
		return NULL;
	return strings + at;
}

const char *elf_file_interpreter(const struct elf_file *file)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; segment_at(file, i, &segment); i++)
		if (segment.p_type == PT_INTERP)
			return string_at(file, segment.p_offset, segment.p_filesz, 0);
	return NULL;
}

/* The next symbol table of a type, and the strings of its names. */
static bool symbols_find(const struct elf_file *file, uint32_t type, Elf64_Shdr *ret_table,
	Elf64_Shdr *ret_strings, unsigned *i)
{
	for (; section_at(file, *i, ret_table); ++*i)
		if (ret_table->sh_type == type && ret_table->sh_entsize == sizeof(Elf64_Sym) &&
			section_at(file, ret_table->sh_link, ret_strings) &&
			piece(file, ret_table->sh_offset, ret_table->sh_size))
			return true;
	return false;
}

/* The index of a function in one table, defined or undefined; -1: not there. */
static long symbol_index(const struct elf_file *file, const Elf64_Shdr *table,
	const Elf64_Shdr *strings, const char *function, bool is_defined)
{
	Elf64_Sym symbol;

	for (unsigned i = 0; i < table->sh_size / sizeof(symbol); i++) {
		const char *name;

		if (!table_at(file, table->sh_offset, i, &symbol, sizeof(symbol)) ||
			(symbol.st_shndx != SHN_UNDEF) != is_defined ||
			(is_defined && ELF64_ST_TYPE(symbol.st_info) != STT_FUNC))
			continue;
		name = string_at(file, strings->sh_offset, strings->sh_size, symbol.st_name);
		if (name && strcmp(name, function) == 0)
			return i;
	}
	return -1;
}

static bool has_symbol(
	const struct elf_file *file, uint32_t type, const char *function, bool is_defined)
{
	Elf64_Shdr table, strings;

	for (unsigned i = 0; symbols_find(file, type, &table, &strings, &i); i++)
		if (symbol_index(file, &table, &strings, function, is_defined) >= 0)
			return true;
	return false;
}

bool elf_file_defines(const struct elf_file *file, const char *function)
{
	return has_symbol(file, SHT_DYNSYM, function, true) ||
	       has_symbol(file, SHT_SYMTAB, function, true);
}

bool elf_file_imports(const struct elf_file *file, const char *function)
{
	return has_symbol(file, SHT_DYNSYM, function, false);
}

bool elf_file_contains(const struct elf_file *file, const char *text)
{
	return memmem(file->bytes, file->size, text, strlen(text));
}

/* Looks through one segment of notes. */
static const void *note_in(const struct elf_file *file, const Elf64_Phdr *segment,
	const char *owner, uint32_t type, size_t size)
{
	const char *notes = piece(file, segment->p_offset, segment->p_filesz);
	size_t n = notes ? segment->p_filesz : 0, owner_size = strlen(owner) + 1;

	for (size_t at = 0; range_ok(at, sizeof(Elf64_Nhdr), n);) {
		Elf64_Nhdr note;
		size_t name = at + sizeof(note), contents;

		memcpy(&note, notes + at, sizeof(note));
		contents = name + ALIGN_UP((size_t)note.n_namesz, 4);
		if (!range_ok(contents, note.n_descsz, n))
			return NULL;
		if (note.n_type == type && note.n_namesz == owner_size && note.n_descsz == size &&
			memcmp(notes + name, owner, owner_size) == 0)
			return notes + contents;
		at = contents + ALIGN_UP((size_t)note.n_descsz, 4);
	}
	return NULL;
}

const void *elf_file_note(
	const struct elf_file *file, const char *owner, uint32_t type, size_t size)
{
	const void *found = NULL;
	Elf64_Phdr segment;

	for (unsigned i = 0; !found && segment_at(file, i, &segment); i++)
		if (segment.p_type == PT_NOTE)
			found = note_in(file, &segment, owner, type, size);
	return found;
}

/* Looks through one section of relocations for those of a symbol of the dynamic table. */
static uint64_t slot_in(const struct elf_file *file, const Elf64_Shdr *section, long symbol)
{
	Elf64_Rela entry;

	for (unsigned i = 0; i < section->sh_size / sizeof(entry); i++)
		if (table_at(file, section->sh_offset, i, &entry, sizeof(entry)) &&
			ELF64_R_SYM(entry.r_info) == (uint64_t)symbol)
			return entry.r_offset;
	return 0;
}

uint64_t elf_file_import_slot(const struct elf_file *file, const char *function)
{
	Elf64_Shdr table, strings, section;
	unsigned at = 0;
	uint64_t slot = 0;
	long symbol;

	if (!symbols_find(file, SHT_DYNSYM, &table, &strings, &at))
		return 0;
	symbol = symbol_index(file, &table, &strings, function, false);
	for (unsigned i = 0; symbol > 0 && slot == 0 && section_at(file, i, &section); i++)
		if (section.sh_type == SHT_RELA && piece(file, section.sh_offset, section.sh_size))
			slot = slot_in(file, &section, symbol);
	return slot;
}

bool elf_file_code(const struct elf_file *file, unsigned *i, const uint8_t **ret_bytes,
	size_t *ret_size, uint64_t *ret_address)
{
	Elf64_Phdr segment;

	for (; segment_at(file, *i, &segment); ++*i) {
		const uint8_t *bytes = piece(file, segment.p_offset, segment.p_filesz);

		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || !bytes)
			continue;
		*ret_bytes = bytes;
		*ret_size = segment.p_filesz;
		*ret_address = segment.p_vaddr;
		++*i;
		return true;
	}
	return false;
}
