/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Interposes dlopen() where this library is preloaded. Any thread, also before
 * main() and without a server.
 *
 * Invariant: this function jumps to libc's dlopen() instead of calling it. libc
 * searches the library paths of its caller, which it finds by the return address.
 */

#include "dlopen.h"

#include <stdatomic.h>
#include <string.h>

#include "disable.h"
#include "client/util/compat.h"
#include "client/util/log.h"

#define DRIVER "libcuda.so"

/* What dlsym() may return here if this library comes before libc. */
#if defined(__x86_64__)
#define OURS dlopen
#else
#define OURS NULL
#endif

dlopen_fn *dlopen_next(void)
{
	static dlopen_fn *_Atomic found;
	dlopen_fn *next = atomic_load_explicit(&found, memory_order_relaxed);

	if (next || !dlsym)
		return next;
	next = (dlopen_fn *)dlsym(RTLD_NEXT, "dlopen");
	/*
	 * The program opened this library, and its libdl (before glibc 2.34) comes after it in
	 * no search order.
	 */
	if (!next)
		next = (dlopen_fn *)dlsym(RTLD_DEFAULT, "dlopen");
	if (next == OURS)
		return NULL;
	atomic_store_explicit(&found, next, memory_order_relaxed);
	return next;
}

#if defined(__x86_64__)

static void *no_dlopen(_unused_ const char *file, _unused_ int mode)
{
	return NULL;
}

/* With any folder and any version in the name. */
static bool is_driver(const char *file)
{
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
	const size_t len = sizeof(DRIVER) - 1;

	return strncmp(name, DRIVER, len) == 0 && (name[len] == '\0' || name[len] == '.');
}

/* Servers add this word: /etc/ld.so.preload may preload this library into them too. */
static bool is_told_not_to(void)
{
	return disable_has(DISABLE_DLOPEN);
}

/* Returns the file to open, and the function that opens it. */
__attribute__((used)) static const char *dlopen_begin(const char *file, dlopen_fn **ret_next)
{
	dlopen_fn *next = dlopen_next();

	*ret_next = next ? next : no_dlopen;
	if (!file || !is_driver(file) || is_told_not_to())
		return file;
	log_debug("dlopen() of %s opens this library", file);
	return DRIVER ".1";
}

/*
 * `mode' is saved beside the slot for the function pointer, in a frame that keeps
 * the stack aligned.
 */
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
