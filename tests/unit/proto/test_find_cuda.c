/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which libcuda is found: by variable, by folder; files of this project, of another
 * machine, or that are no library are skipped. And the text with the paths tried.
 */

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base.h"
#include "find_cuda.h"

#define PATH_BYTES 512

static char root[] = "/tmp/test-find-cuda-XXXXXX";

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

/* A shared object with only a head and one segment of notes. */
struct file {
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	struct {
		Elf64_Nhdr head;
		char name[4];
	} first;
	struct {
		Elf64_Nhdr head;
		char name[12];
	} second;
};

static struct file file_make(const char *note)
{
	struct file file = {
		.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
			.e_machine = MACHINE,
			.e_phoff = offsetof(struct file, segment),
			.e_phnum = 1},
		.segment = {.p_type = PT_NOTE,
			.p_offset = offsetof(struct file, first),
			.p_filesz = sizeof(file.first) + sizeof(file.second)},
		.first = {{4, 0, FIND_CUDA_NOTE_TYPE}, "GNU"},
	};

	file.second.head = (Elf64_Nhdr){(Elf64_Word)strlen(note) + 1, 0, FIND_CUDA_NOTE_TYPE};
	snprintf(file.second.name, sizeof(file.second.name), "%s", note);
	return file;
}

static const char *in_root(const char *name)
{
	static char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void put(const char *folder, const void *bytes, size_t size)
{
	char path[2 * PATH_BYTES];
	int fd;

	mkdir(in_root(folder), 0755);
	snprintf(path, sizeof(path), "%s/libcuda.so.1", in_root(folder));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
	close(fd);
}

static int setup(void **state)
{
	struct file good = file_make("another"), ours = file_make(FIND_CUDA_NOTE_NAME),
		    other = good;

	(void)state;
	assert_non_null(mkdtemp(root));
	other.head.e_machine = EM_S390;
	put("good", &good, sizeof(good));
	put("ours", &ours, sizeof(ours));
	put("other", &other, sizeof(other));
	put("text", "no library at all, but long enough to have a head of 64 bytes....", 64);
	put("short", "\177ELF", 4);
	return 0;
}

static int teardown(void **state)
{
	static const char *const folders[] = {"good", "ours", "other", "text", "short"};
	char path[2 * PATH_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "%s/libcuda.so.1", in_root(folders[i]));
		unlink(path);
		rmdir(in_root(folders[i]));
	}
	return rmdir(root);
}

static void assert_finds(const char *folder)
{
	char path[PATH_BYTES], why[FIND_CUDA_WHY_MAX], wanted[2 * PATH_BYTES];

	snprintf(wanted, sizeof(wanted), "%s/libcuda.so.1", in_root(folder));
	assert_int_equal(find_cuda(path, sizeof(path), why, sizeof(why)), 0);
	assert_string_equal(path, wanted);
}

static void test_variable(void **state)
{
	char path[PATH_BYTES], why[FIND_CUDA_WHY_MAX];

	(void)state;
	setenv("MPS_CUDA_LIBRARY", in_root("good/libcuda.so.1"), 1);
	assert_finds("good");
	setenv("MPS_CUDA_LIBRARY", in_root("ours/libcuda.so.1"), 1);
	assert_int_equal(find_cuda(path, sizeof(path), why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "itself"));
	assert_non_null(strstr(why, in_root("ours/libcuda.so.1")));
	setenv("MPS_CUDA_LIBRARY", in_root("good/libcuda.so.1"), 1);
	assert_int_equal(find_cuda(path, 8, why, sizeof(why)), -ENOENT);
	assert_int_equal(find_cuda(path, sizeof(path), why, 16), 0);
	setenv("MPS_CUDA_LIBRARY", in_root("nothing"), 1);
	assert_int_equal(find_cuda(path, sizeof(path), why, 16), -ENOENT);
	assert_int_equal(strlen(why), 15);
	unsetenv("MPS_CUDA_LIBRARY");
}

static void test_folders(void **state)
{
	char list[6 * PATH_BYTES];

	(void)state;
	snprintf(list, sizeof(list), ":%s/missing:%s/ours:%s/other:%s/text;%s/short:%s/good:", root,
		root, root, root, root, root);
	setenv("LD_LIBRARY_PATH", list, 1);
	assert_finds("good");
	unsetenv("LD_LIBRARY_PATH");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variable),
		cmocka_unit_test(test_folders),
	};

	return cmocka_run_group_tests_name("find_cuda", tests, setup, teardown);
}
