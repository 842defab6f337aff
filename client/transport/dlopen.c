/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stands before libc's dlopen() where we are preloaded. Any thread, also before
 * main() and without a server.
 *
 * Invariant: libc's is jumped to, not called: it looks for a library in the places of
 * who called it, whom it knows by the return address.
 */

#include <string.h>

#include "client/util/compat.h"
#include "dlopen.h"
#include "client/util/log.h"

#define DRIVER "libcuda.so"

/* What a search of all libraries may find, where we stand before libc's. */
#if defined(__x86_64__)
#define OURS dlopen
#else
#define OURS NULL
#endif

dlopen_fn *dlopen_next(void)
{
	static dlopen_fn *found;
	dlopen_fn *next = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (next || !dlsym)
		return next;
	next = (dlopen_fn *)dlsym(RTLD_NEXT, "dlopen");
	/* Opened by a program whose libdl (before glibc 2.34) is not behind us in any order. */
	if (!next)
		next = (dlopen_fn *)dlsym(RTLD_DEFAULT, "dlopen");
	if (next == OURS)
		return NULL;
	__atomic_store_n(&found, next, __ATOMIC_RELAXED);
	return next;
}

#if defined(__x86_64__)

static void *no_dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

/* Whatever folder and version are in the name. */
static bool is_driver(const char *file)
{
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
	const size_t len = sizeof(DRIVER) - 1;

	return strncmp(name, DRIVER, len) == 0 && (name[len] == '\0' || name[len] == '.');
}

/* By a server above all, which a machine's /etc/ld.so.preload has put us before. */
static bool is_told_not_to(void)
{
	const char *value = getenv("MPS_CLIENT_DLOPEN");

	return value && !strcmp(value, "0");
}

/* The file that is to be opened, and by whom. */
__attribute__((used)) static const char *dlopen_begin(const char *file, dlopen_fn **ret_next)
{
	dlopen_fn *next = dlopen_next();

	*ret_next = next ? next : no_dlopen;
	if (!file || !is_driver(file) || is_told_not_to())
		return file;
	log_debug("dlopen() of %s opens this library", file);
	return DRIVER ".1";
}

/* `mode' is kept beside the place for the function, in a frame that leaves the stack aligned. */
__attribute__((naked, visibility("default"))) void *dlopen(
	const char *file __attribute__((unused)), int mode __attribute__((unused)))
{
	__asm__("subq $24, %rsp\n"
		".cfi_adjust_cfa_offset 24\n"
		"movl %esi, 12(%rsp)\n"
		"movq %rsp, %rsi\n"
		"call dlopen_begin\n"
		"movq %rax, %rdi\n"
		"movl 12(%rsp), %esi\n"
		"movq (%rsp), %rax\n"
		"addq $24, %rsp\n"
		".cfi_adjust_cfa_offset -24\n"
		"jmp *%rax");
}

#endif
