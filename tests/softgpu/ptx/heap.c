/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The heap of kernels. Any thread that runs a kernel; one lock. The heap's records
 * of its blocks lie outside the heap, where no kernel can write.
 */

#include "heap.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base.h"

#define UNIT_SHIFT 5
#define N_UNITS (PTX_HEAP_SIZE >> UNIT_SHIFT)

/* A block has a power of two of units; free blocks are linked by class. */
#define N_CLASSES 22u

enum unit_state {
	UNIT_INSIDE, /* inside a block, or never given out */
	UNIT_USED,
	UNIT_FREE,
};

struct unit {
	uint32_t next; /* the next free block, plus one */
	uint8_t state;
	uint8_t class;
};

static struct {
	pthread_mutex_t lock;
	uint8_t *memory;
	struct unit *units;
	uint64_t n_given; /* units */
	uint32_t free[N_CLASSES];
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *reserve(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool heap_begin(void)
{
	if (!heap.units)
		heap.units = reserve(N_UNITS * sizeof(*heap.units));
	if (!heap.memory && heap.units)
		heap.memory = reserve(PTX_HEAP_SIZE);
	return heap.memory;
}

/* A block of a class, as the number of its first unit; -1 if no block is free. */
static int64_t heap_take(uint8_t class)
{
	uint32_t at = heap.free[class];

	if (at) {
		heap.free[class] = heap.units[at - 1].next;
		return at - 1;
	}
	if (heap.n_given + (1ull << class) > N_UNITS)
		return -1;
	heap.n_given += 1ull << class;
	return (int64_t)(heap.n_given - (1ull << class));
}

uint64_t ptx_heap_alloc(uint64_t size)
{
	uint64_t address = 0;
	uint8_t class = 0;
	int64_t at = -1;

	while (class < N_CLASSES && (1ull << (UNIT_SHIFT + class)) < size)
		class ++;
	if (class == N_CLASSES)
		return 0;
	pthread_mutex_lock(&heap.lock);
	if (heap_begin())
		at = heap_take(class);
	if (at >= 0) {
		heap.units[at] = (struct unit){.state = UNIT_USED, .class = class};
		memset(heap.memory + (at << UNIT_SHIFT), 0, 1ull << (UNIT_SHIFT + class));
		address = (uintptr_t)heap.memory + ((uint64_t)at << UNIT_SHIFT);
	}
	pthread_mutex_unlock(&heap.lock);
	return address;
}

bool ptx_heap_free(uint64_t address)
{
	uint64_t at, offset;
	bool is_block;

	if (!address)
		return true;
	pthread_mutex_lock(&heap.lock);
	offset = address - (uintptr_t)heap.memory;
	at = offset >> UNIT_SHIFT;
	is_block = heap.memory && offset < PTX_HEAP_SIZE && !(offset & ((1u << UNIT_SHIFT) - 1)) &&
		   heap.units[at].state == UNIT_USED;
	if (is_block) {
		heap.units[at].state = UNIT_FREE;
		heap.units[at].next = heap.free[heap.units[at].class];
		heap.free[heap.units[at].class] = (uint32_t)at + 1;
	}
	pthread_mutex_unlock(&heap.lock);
	return is_block;
}

bool ptx_heap_lookup(uint64_t addr, uint64_t *ret_start, uint64_t *ret_end)
{
	pthread_mutex_lock(&heap.lock);
	*ret_start = (uintptr_t)heap.memory;
	*ret_end = *ret_start + (heap.n_given << UNIT_SHIFT);
	pthread_mutex_unlock(&heap.lock);
	return addr >= *ret_start && addr < *ret_end;
}
