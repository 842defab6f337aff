/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_STORE_H
#define HOST_STORE_H

/*
 * The store: host memory of the server that keeps the bytes of GPU memory while that memory is
 * evicted (eviction.h). It consists of pieces of 8 MiB, each registered in the driver once, since
 * that takes time, and kept for later bytes. Idle workers make pieces for the
 * next eviction. Bytes take whole slots, which need not be adjacent.
 *
 * Any thread. Where the driver is called, with a GPU's context.
 */

#include "server/util/account.h"
#include "server/driver/driver.h"

struct session;

/* GPUs give memory in multiples of a slot. */
#define STORE_SLOT ((uint64_t)2 << 20)

/* Bytes in the store: a chain of slots. n is 0: there are none. */
struct stored {
	uint32_t first, n;
	struct account *account; /* not owned: pays for the slots, as RESOURCE_STORE */
};

/* Reads MPS_OVERSUBSCRIBE_HOST. Before the first session. */
void host_store_init(void);

/*
 * Space for `size' bytes, which is not 0, for which the account pays. False: the store is full, or
 * holds as much of the account's user as it may, or the driver refuses.
 */
bool host_store_take(struct account *account, uint64_t size, struct stored *ret_stored);

/* The same for bytes of another server, which had them: no user has too many. */
bool host_store_take_over(struct account *account, uint64_t size, struct stored *ret_stored);

/*
 * Makes one piece, unless there are pieces for `size' bytes, or nothing was ever stored. Leaves off
 * when goes_on() is false, which it asks every millisecond. Returns whether another call can make
 * more.
 */
bool host_store_warm(uint64_t size, bool (*goes_on)(void *), void *arg);

/* The memory of the first slot, which is registered. */
void *host_store_memory(const struct stored *stored);

/* No copy of these bytes is under way. Does nothing if there are none. */
void host_store_give(struct stored *stored);

/* A copy between stored bytes and the GPU's memory, which goes on from slice to slice. */
struct store_copy {
	uint64_t address, size; /* what is left */
	uint32_t slot, n;       /* ... of the chain */
	bool is_out;            /* from the GPU's memory */
};

static inline struct store_copy host_store_copy(
	const struct stored *stored, uint64_t address, uint64_t size, bool is_out)
{
	return (struct store_copy){address, size, stored->first, stored->n, is_out};
}

/* The next bytes of a chain in memory, `*ret_size' of them; NULL: that was all. */
void *host_store_next(struct store_copy *copy, uint64_t *ret_size);

/* Puts `bytes' on a stream, about: at least one slot, and no more than is left. */
CUresult host_store_copy_next(struct store_copy *copy, uint64_t bytes, CUstream stream);

/*
 * No session needs the store now: gives its memory back to the system, unless bytes are in it.
 * With a session that ends, for the driver calls, which wait as quiet_unpin() does.
 */
void host_store_trim(struct session *session);

/* Bytes that are taken, and the limit. */
uint64_t host_store_used(void);
uint64_t host_store_limit(void);

#endif
