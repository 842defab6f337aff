/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

/*
 * An account counts the host memory that this server holds because of one
 * session. Every block that a message makes the server allocate comes from here. It
 * is charged in bytes, together with what the driver keeps for the object that the
 * block describes (kept.h). Each account has a bound, and so have all together (quota.h).
 *
 * One rule says which account pays: a block is charged to the account that it was
 * allocated from, until account_free(), on whatever thread and however long after
 * the end of the session. Charges never move between accounts, so none is lost and
 * none is counted twice:
 *
 * - An object whose end is deferred (deferred.h) counts for its session until that end.
 * - An object that several sessions share, such as an image or an event, counts for
 *   the session that brought it, until the last session has let go of it.
 * - An object that the server keeps after its session, to use it again, such as a
 *   green context, is disowned. It counts for no session, and the file that keeps it
 *   bounds how many there are.
 *
 * An account lives until its session has ended and its last block is freed.
 *
 * Pages of files are not charged: clients pay for those of images, and the ring, the
 * staging memory and the page of a session have a fixed size.
 *
 * Only one thread at a time may call account_new(), account_close() and what
 * charges: the session's worker, or the loop before and after it. Any thread may
 * call account_free(), account_unkeep() and account_disown().
 */

#include "kept.h"
#include "quota.h"

struct account;

/*
 * Called when a bound is met; `round' counts the calls for one charge. True: memory may have
 * been freed, so the charge is tried again. Must not be called under a lock that others wait
 * for: it may take a second.
 */
struct account_owner {
	bool (*on_full)(void *arg, uint64_t amount, unsigned round);
	void *arg;
};

/*
 * For a session that costs `base' bytes by itself. `parent' is what its user may have (NULL:
 * what the server may have). NULL: there is no memory for it.
 */
struct account *account_new(uint64_t base, struct account_owner owner, struct quota *parent);

/* The session has ended. NULL is fine. */
void account_close(struct account *account);

/*
 * Zeroed memory for an object for which the driver keeps `kept' bytes besides. NULL: there is
 * no memory, or a bound was met. Without an account the block is the server's own.
 */
void *account_alloc(struct account *account, uint64_t size, uint64_t kept);

/*
 * Makes a block larger, as reallocarray(): the new part is not zeroed, and on failure the block
 * is unchanged. NULL: makes a new block.
 */
void *account_grow(struct account *account, void *block, uint64_t n, uint64_t size);

/* The driver is about to keep more for the object. False: a bound was met. */
bool account_keep(void *block, uint64_t more);

/* The driver keeps less for it. */
void account_unkeep(void *block, uint64_t less);

/* Refunds all that the block was charged with. NULL is fine. */
void account_free(void *block);

/* Refunds it as well, but the block stays, as the server's own. */
void account_disown(void *block);

static inline void account_freep(void *block)
{
	account_free(*(void **)block);
}

#define _cleanup_account_ _cleanup_(account_freep)

/* Bytes that the account is charged with. */
uint64_t account_held(const struct account *account);

/* Says why `amount' more is refused, for the log. */
#define ACCOUNT_TEXT 384
void account_explain(const struct account *account, uint64_t amount, char text[ACCOUNT_TEXT]);

/* The quota of all accounts. Its limit is read once, with the first account; tests change it. */
struct quota *accounts_quota(void);

/*
 * The bound of one session, unless MPS_CLIENT_HOST_MIB says otherwise. It is enough for 100
 * graphs of 2 000 nodes each, or for as many libraries as a session may have.
 */
#define ACCOUNT_MAX_MIB 2048u
/* What each session may have whatever others hold: enough for a small program. */
#define ACCOUNT_OWN ((uint64_t)16 << 20)
/* All sessions of a server share the memory of the machine, or of its cgroup, divided by this. */
#define ACCOUNTS_PART 2u

#endif
