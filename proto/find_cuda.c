/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks for the real libcuda.so.1. Any thread; reads the environment.
 *
 * Invariant: a path that it returns is a shared object for this machine without
 * the note of the client library, so opening it never opens this library.
 */

#include "find_cuda.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

#define SONAME "libcuda.so.1"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define CACHE_FLAGS 0x0303 /* libc6, x86-64 */
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#define CACHE_FLAGS 0x0a03 /* libc6, AArch64 */
#else
#error "an architecture with a CUDA driver is needed"
#endif

/* The files of the loader are smaller; a larger file is something else. */
#define CACHE_MAX (64u << 20)
#define NOTE_MAX 4096u

struct search {
	char *ret_path;
	size_t path_size;
	char *why;
	size_t why_size;
	size_t why_used;
	bool is_client;
};

/* What to do with a path of the loader's cache; true ends the search. */
typedef bool visit_fn(struct search *search, const char *path);

static const char is_ours[] = "the MPS client library itself";

static const char *const folders[] = {
#if defined(__x86_64__)
	"/usr/lib/x86_64-linux-gnu",
	"/lib/x86_64-linux-gnu",
#else
	"/usr/lib/aarch64-linux-gnu",
	"/lib/aarch64-linux-gnu",
#endif
	"/usr/lib64",
	"/lib64",
	"/usr/lib",
	"/usr/local/nvidia/lib64",
	"/run/opengl-driver/lib",
	"/usr/lib/wsl/lib",
};

static bool read_at(int fd, void *buffer, size_t size, off_t offset)
{
	return pread(fd, buffer, size, offset) == (ssize_t)size;
}

/* Whether a segment of notes has the note of the client library. */
static bool notes_are_ours(int fd, const Elf64_Phdr *segment)
{
	char notes[NOTE_MAX];
	size_t size = MIN(segment->p_filesz, sizeof(notes));

	if (!read_at(fd, notes, size, (off_t)segment->p_offset))
		return false;
	for (size_t at = 0; range_ok(at, sizeof(Elf64_Nhdr), size);) {
		Elf64_Nhdr note;
		size_t name = at + sizeof(note), next;

		memcpy(&note, notes + at, sizeof(note));
		if (!range_ok(name, note.n_namesz, size))
			return false;
		if (note.n_type == FIND_CUDA_NOTE_TYPE &&
			note.n_namesz == sizeof(FIND_CUDA_NOTE_NAME) &&
			!memcmp(notes + name, FIND_CUDA_NOTE_NAME, note.n_namesz))
			return true;
		next = name + ALIGN_UP((size_t)note.n_namesz, 4) +
		       ALIGN_UP((size_t)note.n_descsz, 4);
		at = next;
	}
	return false;
}

/* NULL if the file is a usable driver, else what is wrong with it. */
static const char *file_objection(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	Elf64_Ehdr head;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? "no such file" : strerror(errno);
	if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return "no shared object";
	if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != MACHINE)
		return "made for another kind of machine";
	for (unsigned i = 0; i < head.e_phnum; i++) {
		Elf64_Phdr segment;
		off_t at = (off_t)(head.e_phoff + (uint64_t)i * sizeof(segment));

		if (!read_at(fd, &segment, sizeof(segment), at))
			return "a damaged file";
		if (segment.p_type == PT_NOTE && notes_are_ours(fd, &segment))
			return is_ours;
	}
	return NULL;
}

_printf_(2, 3) static void search_note(struct search *search, const char *format, ...)
{
	size_t left = search->why_size - search->why_used;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(search->why + search->why_used, left, format, args);
	va_end(args);
	if (n > 0)
		search->why_used += MIN((size_t)n, left - 1);
}

static bool search_try(struct search *search, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	const char *objection = file_objection(path);

	if (!objection && (!real || strlen(real) >= search->path_size))
		objection = "its path is too long";
	if (objection || !real) {
		search_note(search, "%s%s (%s)", search->why_used ? ", " : "", path, objection);
		return false;
	}
	memcpy(search->ret_path, real, strlen(real) + 1);
	return true;
}

static bool search_folder(struct search *search, const char *folder, size_t length)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%.*s/%s", (int)length, folder, SONAME);

	if (length == 0 || n < 0 || (size_t)n >= sizeof(path))
		return false;
	return search_try(search, path);
}

static bool search_list(struct search *search, const char *list)
{
	while (list && *list) {
		size_t length = strcspn(list, ":;");

		if (search_folder(search, list, length))
			return true;
		list += length + (list[length] != '\0');
	}
	return false;
}

/* The loader's cache: its head, its entries, then strings at offsets from the head. */
struct cache_head {
	char magic[20];
	uint32_t n_libs;
	uint32_t strings_size;
	uint32_t unused[5];
};

struct cache_entry {
	int32_t flags;
	uint32_t key, value;
	uint32_t os_version;
	uint64_t hwcap;
};

static bool search_cache_bytes(
	struct search *search, visit_fn *visit, const char *cache, size_t size)
{
	static const char magic[] = "glibc-ld.so.cache1.1";
	const char *start = memmem(cache, size, magic, sizeof(magic) - 1);
	struct cache_head head;
	bool found = false;

	if (!start)
		return false;
	size -= (size_t)(start - cache);
	if (!range_ok(0, sizeof(head), size))
		return false;
	memcpy(&head, start, sizeof(head));
	if (!range_ok(sizeof(head), (uint64_t)head.n_libs * sizeof(struct cache_entry), size))
		return false;
	for (uint32_t i = 0; i < head.n_libs && !found; i++) {
		struct cache_entry entry;

		memcpy(&entry, start + sizeof(head) + (size_t)i * sizeof(entry), sizeof(entry));
		if (entry.flags != CACHE_FLAGS || entry.key >= size || entry.value >= size)
			continue;
		if (!strncmp(start + entry.key, SONAME, size - entry.key) &&
			memchr(start + entry.value, 0, size - entry.value))
			found = visit(search, start + entry.value);
	}
	return found;
}

static bool search_cache(struct search *search, visit_fn *visit)
{
	_cleanup_close_ int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *cache = NULL;
	off_t size;

	if (fd < 0)
		return false;
	size = lseek(fd, 0, SEEK_END);
	if (size <= 0 || size > CACHE_MAX)
		return false;
	cache = malloc((size_t)size);
	if (!cache || !read_at(fd, cache, (size_t)size, 0))
		return false;
	return search_cache_bytes(search, visit, cache, (size_t)size);
}

int find_cuda(char *ret_path, size_t path_size, char *why, size_t why_size)
{
	struct search search = {ret_path, path_size, why, why_size, 0, false};
	const char *wanted = secure_getenv("MPS_CUDA_LIBRARY");

	if (wanted && *wanted)
		return search_try(&search, wanted) ? 0 : -ENOENT;
	if (search_list(&search, secure_getenv("LD_LIBRARY_PATH")) ||
		search_cache(&search, search_try))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (search_folder(&search, folders[i], strlen(folders[i])))
			return 0;
	return -ENOENT;
}

static bool look_at_first(struct search *search, const char *path)
{
	search->is_client = file_objection(path) == is_ours;
	return true;
}

bool find_cuda_is_replaced(void)
{
	struct search search = {0};

	return search_cache(&search, look_at_first) && search.is_client;
}

const char *find_cuda_advice(void)
{
	const char *wanted = secure_getenv("MPS_CUDA_LIBRARY");

	if (wanted && *wanted)
		return "MPS_CUDA_LIBRARY names no CUDA driver: set it to the driver's " SONAME
		       ", or unset it";
	return "No NVIDIA driver was found: install it, set MPS_CUDA_LIBRARY to its " SONAME
	       ", or start the daemon on the software GPU (mps-control -d --software)";
}
