/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

/*
 * An account counts the host memory that this server holds because of one session. The
 * server allocates from the account every block that a message requires. A block is charged
 * in bytes, together with what the driver keeps for the object that the block describes
 * (kept.h). Each account has a bound, and all accounts together have one (quota.h).
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
 * account_free(), account_unkeep() and account_disown().
 */

#include "kept.h"
#include "quota.h"

struct account;

/*
 * Called when a bound is met; `round' counts the calls for one charge. True: memory may have
 * been freed, so the charge is tried again. Call it under no lock that others need: it may
 * take a second.
 */
struct account_owner {
	bool (*on_full)(void *arg, uint64_t amount, unsigned round);
	void *arg;
};

/*
 * `base': what the session itself costs. `parent': the quota of its user (NULL: that of the
 * server). Returns NULL without memory.
 */
struct account *account_new(uint64_t base, struct account_owner owner, struct quota *parent);

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

/* The driver will keep `more' bytes for the object. False: a bound was met. */
bool account_keep(void *block, uint64_t more);

/* The driver keeps `less' bytes less for the object. */
void account_unkeep(void *block, uint64_t less);

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

/* How much the account may hold, if the other accounts leave as much. */
uint64_t account_limit(const struct account *account);

/* Says why `amount' more is refused, for the log. */
#define ACCOUNT_TEXT 384
void account_explain(const struct account *account, uint64_t amount, char text[ACCOUNT_TEXT]);

/* The quota of all accounts. Its limit is read once, with the first account; tests change it. */
struct quota *accounts_quota(void);

/*
 * The bound of one session, unless MPS_CLIENT_HOST_MIB says otherwise. Enough for 100 graphs
 * of 2 000 nodes each, or for as many libraries as a session may have.
 */
#define ACCOUNT_MAX_MIB 2048u
/* What each session may always have: enough for a small program. */
#define ACCOUNT_OWN ((uint64_t)16 << 20)
/* All sessions of a server share the memory of the machine, or of its cgroup, divided by this. */
#define ACCOUNTS_PART 2u

#endif
