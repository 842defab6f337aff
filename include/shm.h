/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHM_H
#define SHM_H

/*
 * Memory shared between two programs that do not trust each other. All memory
 * orders of the project live here; shared words are touched only by these
 * functions, and a plain dereference of a __shm pointer is an error under
 * clang (noderef).
 */

#include <linux/futex.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base.h"

#if defined(__clang__)
#define __shm __attribute__((noderef, address_space(1)))
#define SHM_PTR(ptr) ((__typeof__(*(ptr)) *)(uintptr_t)(ptr))
#else
#define __shm
#endif

/* The words live behind volatile only here, so that each access is made once. */
static inline uint32_t shm_load32(const __shm uint32_t *word)
{
	return __atomic_load_n((const volatile uint32_t *)(uintptr_t)word, __ATOMIC_ACQUIRE);
}

static inline void shm_store32(__shm uint32_t *word, uint32_t value)
{
	__atomic_store_n((volatile uint32_t *)(uintptr_t)word, value, __ATOMIC_RELEASE);
}

static inline uint64_t shm_load64(const __shm uint64_t *word)
{
	return __atomic_load_n((const volatile uint64_t *)(uintptr_t)word, __ATOMIC_ACQUIRE);
}

static inline void shm_store64(__shm uint64_t *word, uint64_t value)
{
	__atomic_store_n((volatile uint64_t *)(uintptr_t)word, value, __ATOMIC_RELEASE);
}

/* Counts; returns nothing, as who reads it only wants to see it change. */
static inline void shm_add32(__shm uint32_t *word, uint32_t by)
{
	__atomic_fetch_add((volatile uint32_t *)(uintptr_t)word, by, __ATOMIC_RELEASE);
}

/*
 * The two halves of "I sleep" and "there is something": a store, then this,
 * then the load of the other side's word. One of the two sees the other.
 */
static inline void shm_fence(void)
{
#ifdef __SANITIZE_THREAD__
	__builtin_ia32_mfence(); /* ThreadSanitizer knows no fences; none of our orders needs it to
				  */
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline void shm_relax(void)
{
	__builtin_ia32_pause();
}

/*
 * Copies out of, or into, shared memory: once. In test builds the source of a
 * copy out is overwritten (MPS_SCRIBBLE), so that a second look at it shows.
 */
static inline void shm_copy_out(void *dst, __shm void *src, size_t size)
{
	memcpy(dst, (const void *)(uintptr_t)src, size);
#ifdef MPS_SCRIBBLE
	memset((void *)(uintptr_t)src, 0xff, size);
#endif
}

static inline void shm_copy_in(__shm void *dst, const void *src, size_t size)
{
	memcpy((void *)(uintptr_t)dst, src, size);
}

/* Sleeps while *word is `value', at most `timeout_ms'. Spurious returns are usual. */
static inline void shm_wait(const __shm uint32_t *word, uint32_t value, int timeout_ms)
{
	struct timespec timeout = {timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};

	syscall(SYS_futex, (uintptr_t)word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static inline void shm_wake(__shm uint32_t *word)
{
	syscall(SYS_futex, (uintptr_t)word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Who may write a shared memory once it is sealed. */
enum shm_kind {
	SHM_THEIRS, /* both sides: its size is fixed, its bytes are hostile */
	SHM_OURS,   /* its maker alone: others can map it only for reading */
};

/*
 * Makes a memfd of `size' bytes (a multiple of the page size), maps it for
 * reading and writing, seals it. The caller owns the descriptor and the
 * mapping (munmap). Seals are for good.
 */
int shm_create(const char *name, size_t size, enum shm_kind kind, int *ret_fd, void **ret_map);

/*
 * Maps what a peer made, after checking that its size is exactly `size' and
 * that it can't shrink (SIGBUS). MADV_DONTFORK. -EBADMSG if it is not so.
 */
int shm_map(int fd, size_t size, enum shm_kind kind, void **ret_map);

/*
 * A memory of THEIRS at one address in both processes, if nothing lies there:
 * -EEXIST. shm_create_at() makes it; shm_map_at() maps what a peer made, after
 * the checks of shm_map(), but leaves it to a forked child. The caller keeps
 * `fd' and owns the mapping. `address' is a multiple of the page size.
 */
int shm_create_at(const char *name, uint64_t address, size_t size, int *ret_fd);
int shm_map_at(int fd, uint64_t address, size_t size);

/*
 * Maps a peer's image for reading: it must be sealed against writing, growing
 * and shrinking, and hold exactly `size' bytes. -EBADMSG if not.
 */
int shm_map_image(int fd, size_t size, void **ret_map);

/* Makes a memfd that holds a copy of `data', sealed for shm_map_image(). */
int shm_create_image(const char *name, const void *data, size_t size, int *ret_fd);

#endif
