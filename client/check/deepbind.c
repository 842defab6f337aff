/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks for calls of dlopen() with RTLD_DEEPBIND in machine code. Main thread.
 *
 * The code is searched, not decoded: a call is five bytes e8 OFFSET to a jump through
 * dlopen's pointer, or six bytes ff 15 OFFSET through the pointer itself (tail calls:
 * e9 and ff 25). The flags are a constant in %esi that is set shortly before.
 */

#include <dlfcn.h>
#include <string.h>

#include "checks.h"

/* How far before a call its flags are set. */
#define FLAGS_DISTANCE 48

#define FLAGS_ALL (RTLD_LAZY | RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND | RTLD_GLOBAL | RTLD_NODELETE)

struct code {
	const uint8_t *bytes;
	size_t size;
	uint64_t address;
};

/* The address that an instruction of `length' bytes names by the offset in its last four. */
static uint64_t target_of(const struct code *code, size_t at, size_t length)
{
	int32_t offset;

	memcpy(&offset, code->bytes + at + length - sizeof(offset), sizeof(offset));
	return code->address + at + length + (uint64_t)(int64_t)offset;
}

static bool is_through(const struct code *code, size_t at, uint8_t kind, uint64_t slot)
{
	return range_ok(at, 6, code->size) && code->bytes[at] == 0xff &&
	       code->bytes[at + 1] == kind && target_of(code, at, 6) == slot;
}

/* Whether a jump through the pointer begins at this address, or after endbr64 there. */
static bool is_stub(const struct code *code, uint64_t address, uint64_t slot)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint64_t at = address - code->address;

	if (!range_ok(at, sizeof(endbr64) + 7, code->size))
		return false;
	if (memcmp(code->bytes + at, endbr64, sizeof(endbr64)) == 0)
		at += sizeof(endbr64);
	/* With the prefix bnd, as older linkers write it. */
	at += code->bytes[at] == 0xf2;
	return is_through(code, at, 0x25, slot);
}

/* Whether `mov $FLAGS, %esi' with RTLD_DEEPBIND is the last that sets %esi so before `end'. */
static bool has_flags(const struct code *code, size_t end)
{
	for (size_t at = end; at-- > 0 && end - at <= FLAGS_DISTANCE;) {
		uint32_t flags;

		if (code->bytes[at] != 0xbe || end - at < 5)
			continue;
		memcpy(&flags, code->bytes + at + 1, sizeof(flags));
		if ((flags & ~(uint32_t)FLAGS_ALL) == 0 && (flags & (RTLD_LAZY | RTLD_NOW)))
			return flags & RTLD_DEEPBIND;
	}
	return false;
}

static bool is_call(const struct code *code, size_t at, uint64_t slot)
{
	uint8_t first = code->bytes[at];

	if (first == 0xe8 || first == 0xe9)
		return range_ok(at, 5, code->size) && is_stub(code, target_of(code, at, 5), slot);
	return first == 0xff &&
	       (is_through(code, at, 0x15, slot) || is_through(code, at, 0x25, slot));
}

bool deepbind_is_used(const struct elf_file *file)
{
	uint64_t slot =
		file->head.e_machine == EM_X86_64 ? elf_file_import_slot(file, "dlopen") : 0;
	struct code code;
	unsigned i = 0;

	while (slot != 0 && elf_file_code(file, &i, &code.bytes, &code.size, &code.address))
		for (size_t at = 0; at < code.size; at++)
			if (is_call(&code, at, slot) && has_flags(&code, at))
				return true;
	return false;
}
