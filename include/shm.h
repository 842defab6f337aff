/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHM_H
#define SHM_H

/*
 * Memory shared between two programs that do not trust each other. A pointer to
 * it is __shm from the function that maps the memory to the last use: under
 * clang, a plain dereference is an error (noderef), and so is a conversion from
 * or to a plain pointer (address_space). Only this header and proto/ cast, and
 * `make lint' looks for casts elsewhere.
 */

#include <linux/futex.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base.h"

#if defined(__clang__) || defined(__CHECKER__)
#define __shm __attribute__((noderef, address_space(1)))
#else
#define __shm
#endif

/* Only here are the words volatile, so that each access happens once. */
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

/* Stores `value' if the word is `expected'. */
static inline void shm_replace32(__shm uint32_t *word, uint32_t expected, uint32_t value)
{
	__atomic_compare_exchange_n((volatile uint32_t *)(uintptr_t)word, &expected, value, false,
		__ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Adds. The other side only checks that the value has changed. */
static inline void shm_add32(__shm uint32_t *word, uint32_t by)
{
	__atomic_fetch_add((volatile uint32_t *)(uintptr_t)word, by, __ATOMIC_RELEASE);
}

/*
 * Between a side that goes to sleep and a side that publishes work: each stores its
 * word, calls this, then loads the other's word. At least one of them sees the other.
 */
static inline void shm_fence(void)
{
#ifdef __SANITIZE_THREAD__
	__builtin_ia32_mfence(); /* ThreadSanitizer does not know fences; no order here needs it to
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
 * Copies out of or into shared memory, once. In test builds, the source of a copy
 * out is overwritten (MPS_SCRIBBLE), so that a second read of it fails a test.
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

/*
 * Bytes that their writer has finished: plain loads are safe if the reader trusts
 * the writer, as a client trusts its server's page.
 */
static inline const void *shm_settled(const __shm void *bytes)
{
	return (const void *)(uintptr_t)bytes;
}

/* An address for calls of the driver and the kernel. Never dereferenced. */
static inline void *shm_raw(const __shm void *memory)
{
	return (void *)(uintptr_t)memory;
}

/* Memory that both sides have at one address. */
static inline __shm void *shm_at(uint64_t address)
{
	return (__shm void *)(uintptr_t)address;
}

/* The half on which a futex waits: it changes whenever the word does. */
static inline __shm uint32_t *shm_low_half(const __shm uint64_t *word)
{
	return (__shm uint32_t *)(uintptr_t)word;
}

/* Sleeps while *word is `value', at most `timeout_ms'. Spurious returns are common. */
static inline void shm_wait(const __shm uint32_t *word, uint32_t value, int timeout_ms)
{
	struct timespec timeout = {timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};

	syscall(SYS_futex, (uintptr_t)word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static inline void shm_wake(const __shm uint32_t *word)
{
	syscall(SYS_futex, (uintptr_t)word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Which side may write a shared memory after sealing. */
enum shm_kind {
	SHM_THEIRS, /* both sides: the size is fixed, the bytes are hostile */
	SHM_OURS,   /* only its creator; others can map it for reading only */
};

/*
 * Creates a memfd of `size' bytes (a multiple of the page size), maps it for
 * reading and writing, and seals it permanently. The caller owns the descriptor
 * and the mapping (shm_unmap).
 */
int shm_create(
	const char *name, size_t size, enum shm_kind kind, int *ret_fd, __shm void **ret_map);

/*
 * Maps a peer's memory after checking that its size is exactly `size' and that it
 * cannot shrink (SIGBUS); -EBADMSG if the check fails. Forked children and cores do
 * not get it.
 */
int shm_map(int fd, size_t size, enum shm_kind kind, __shm void **ret_map);

/* `map' may be NULL. */
static inline void shm_unmap(__shm void *map, size_t size)
{
	if (map)
		munmap(shm_raw(map), size);
}

/*
 * SHM_THEIRS at one address in both processes; -EEXIST if the address is in use.
 * shm_create_at() creates the memory. shm_check() makes the checks of shm_map() of a
 * peer's memory, of which shm_map_part() then maps [offset, offset + size); a forked
 * child keeps the mapping. The caller keeps `fd' and owns the mapping. `address' is a
 * multiple of the page size.
 */
int shm_create_at(const char *name, uint64_t address, size_t size, int *ret_fd);
int shm_check(int fd, size_t size);
int shm_map_part(int fd, uint64_t offset, uint64_t address, size_t size);

/*
 * Maps a peer's image for reading: it must be sealed against writing, growing and
 * shrinking, and have exactly `size' bytes; otherwise -EBADMSG.
 */
int shm_map_image(int fd, size_t size, void **ret_map);

/* Creates a memfd with a copy of `data', sealed for shm_map_image(). */
int shm_create_image(const char *name, const void *data, size_t size, int *ret_fd);

#endif
