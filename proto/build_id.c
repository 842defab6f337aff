/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the notes of a program's file.
 *
 * Invariant: no number in the file is used before it is checked.
 */

#include "build_id.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

#define HEADERS_MAX 64
#define NOTES_MAX 4096

/* Notes are aligned to four bytes, also their names and contents. */
#define ALIGNED(size) (((size_t)(size) + 3) & ~(size_t)3)

static bool read_at(int fd, void *bytes, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, bytes, size, (off_t)offset) == (ssize_t)size;
}

/* 0: the ID is not among them. */
static uint64_t find_id(const uint8_t *notes, size_t size)
{
	for (size_t at = 0; size - at > sizeof(Elf64_Nhdr);) {
		const size_t left = size - at - sizeof(Elf64_Nhdr);
		const uint8_t *name = notes + at + sizeof(Elf64_Nhdr);
		Elf64_Nhdr note;
		uint64_t id = 0;

		memcpy(&note, notes + at, sizeof(note));
		if (ALIGNED(note.n_namesz) > left ||
			ALIGNED(note.n_descsz) > left - ALIGNED(note.n_namesz))
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
			memcmp(name, "GNU", sizeof("GNU")) == 0) {
			memcpy(&id, name + sizeof("GNU"), MIN(note.n_descsz, sizeof(id)));
			return id;
		}
		at += sizeof(note) + ALIGNED(note.n_namesz) + ALIGNED(note.n_descsz);
	}
	return 0;
}

static uint64_t read_id(int fd)
{
	uint8_t notes[NOTES_MAX];
	uint64_t id = 0;
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
		head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(part))
		return 0;
	for (unsigned i = 0; i < MIN(head.e_phnum, HEADERS_MAX) && id == 0; i++)
		if (read_at(fd, &part, sizeof(part), head.e_phoff + i * sizeof(part)) &&
			part.p_type == PT_NOTE && part.p_filesz <= sizeof(notes) &&
			read_at(fd, notes, part.p_filesz, part.p_offset))
			id = find_id(notes, part.p_filesz);
	return id;
}

uint64_t build_id_of(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? 0 : read_id(fd);
}
