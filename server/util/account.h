/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

/*
 * An account counts what this server holds because of one session: host memory, and entries
 * of the tables that all sessions share (resource.h). The server allocates from the account
 * every block that a message requires. A block is charged in bytes, together with what the
 * driver keeps for the object that the block describes (kept.h). The object takes entries of
 * tables through its block. Each account has a bound of host memory, and for each resource a
 * chain of quotas bounds all accounts together.
 *
 * One rule says which account pays: a block is charged to the account that it was allocated
 * from, until account_free(), on any thread, and also after the end of the session. Charges
 * never move between accounts, so each is counted exactly once:
 *
 * - An object whose end is deferred (deferred.h) counts for its session until that end.
 * - An object that several sessions share, such as an image or an event, counts for the
 *   session that brought it, until the last session drops its reference.
 * - An object that the server keeps after its session, to use it again, such as a green
 *   context, is disowned. It counts for no session. The file that keeps such objects bounds
 *   their number.
 *
 * An account lives until its session has ended and its last block is freed.
 *
 * Pages of files are not charged: clients are charged for pages of images by the kernel, and
 * the ring, the staging memory and the page of a session have a fixed size.
 *
 * Only one thread at a time may call account_new(), account_close() and the functions that
 * charge: the session's worker, or the loop before and after it. Any thread may call
 * account_free(), account_unkeep(), account_give() and account_disown().
 */

#include "kept.h"
#include "resource.h"

struct account;

/*
 * Called when a bound is met; `round' counts the calls for one charge. True: memory may have
 * been freed, so the charge is tried again. Call it under no lock that others need: it may
 * take a second.
 */
struct account_owner {
	bool (*on_full)(void *arg, enum resource resource, uint64_t amount, unsigned round);
	void *arg;
};

/*
 * `base': what the session itself costs. `parent': the quotas of its process (NULL: those of
 * the server). Returns NULL without memory.
 */
struct account *account_new(
	uint64_t base, struct account_owner owner, struct resource_quotas *parent);

/* The session has ended. NULL is fine. */
void account_close(struct account *account);

/*
 * Zeroed memory for an object for which the driver keeps another `kept' bytes. NULL: there
 * is no memory, or a bound was met. Without an account the block is the server's own.
 */
void *account_alloc(struct account *account, uint64_t size, uint64_t kept);

/*
 * Makes a block larger, as reallocarray(): the new part is not zeroed, and on failure the block
 * is unchanged. NULL: makes a new block.
 */
void *account_grow(struct account *account, void *block, uint64_t n, uint64_t size);

/*
 * Makes space for one more element, of `size' bytes, of a list that has `n'. `list' points to the
 * block with *n_max elements, which may be NULL. False: there is no memory, or a bound was met.
 */
bool account_grow_list(
	struct account *account, void *list, uint32_t n, uint32_t *n_max, uint64_t size);

/* The driver will keep `more' bytes for the object. False: a bound was met. */
bool account_keep(void *block, uint64_t more);

/* The driver keeps `less' bytes less for the object. */
void account_unkeep(void *block, uint64_t less);

/*
 * The object takes `n' of a resource other than host memory. False: a bound was met. The
 * caller gives the same back before it frees or disowns the block. 0 is fine in both.
 */
bool account_take(void *block, enum resource resource, uint64_t n);
void account_give(void *block, enum resource resource, uint64_t n);

/*
 * The session takes `n' of a resource other than host memory without a block, and refunds the same,
 * on any thread, while a block of the account lives. False: a bound was met; on_full() was not
 * called.
 */
bool account_charge_only(struct account *account, enum resource resource, uint64_t n);
void account_refund_only(struct account *account, enum resource resource, uint64_t n);

/* As account_charge_only(), whatever the bounds are. */
void account_force(struct account *account, enum resource resource, uint64_t n);

/* Refunds everything that the block was charged with. NULL is fine. */
void account_free(void *block);

/* Refunds the same, but the block stays, as the server's own. */
void account_disown(void *block);

static inline void account_freep(void *block)
{
	account_free(*(void **)block);
}

#define _cleanup_account_ _cleanup_(account_freep)

/* The bytes that the account is charged with. */
uint64_t account_held(const struct account *account);

/* How much of a resource the account has taken. */
uint64_t account_taken(const struct account *account, enum resource resource);

/* How much the account may hold, if the other accounts leave as much. */
uint64_t account_limit(const struct account *account);

/* Says why `amount' more is refused, for the log. */
#define ACCOUNT_TEXT 384
void account_explain(const struct account *account, enum resource resource, uint64_t amount,
	char text[ACCOUNT_TEXT]);

/*
 * The bound of one session, unless MPS_CLIENT_HOST_MIB says otherwise. Enough for 100 graphs
 * of 2 000 nodes each, or for as many libraries as a session may have.
 */
#define ACCOUNT_MAX_MIB 2048u

#endif
