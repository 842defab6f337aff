/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Accounts and their blocks. Any thread, without a lock.
 *
 * Invariant: an account is charged with what its blocks cost and, until account_close(),
 * with its session's base. So nothing refers to the account when its charge is 0.
 */

#include "account.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "machine_memory.h"
#include "number.h"

/* If the machine does not say how much memory it has. */
#define MACHINE_MEMORY_DEFAULT ((uint64_t)4 << 30)
#define HOST_MIB_MAX (1u << 24)

struct account {
	struct quota quota;
	struct account_owner owner;
	uint64_t base;
};

/* Lies before the memory of each block. The memory is aligned as malloc() aligns it. */
struct block {
	_Alignas(16) struct account *account; /* NULL: the block is the server's own */
	uint64_t size;
	uint64_t kept;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct quota all;
static uint64_t session_max;

static const struct number_setting host_mib = {
	.variable = "MPS_CLIENT_HOST_MIB",
	.unit = "MiB",
	.least = 1,
	.most = HOST_MIB_MAX,
	.usual = ACCOUNT_MAX_MIB,
};

static void account_start(void)
{
	uint64_t machine = machine_memory("");

	all.limit = (machine ? machine : MACHINE_MEMORY_DEFAULT) / ACCOUNTS_PART;
	session_max = number_setting_read(&host_mib) << 20;
	log_line("Host memory for clients: %llu MiB each, %llu MiB in all",
		(unsigned long long)session_max >> 20, (unsigned long long)all.limit >> 20);
}

struct quota *accounts_quota(void)
{
	pthread_once(&once, account_start);
	return &all;
}

static void account_refund(struct account *account, uint64_t amount)
{
	if (quota_refund(&account->quota, amount) == 0)
		free(account);
}

static bool account_charge(struct account *account, uint64_t amount)
{
	const struct account_owner *owner = &account->owner;

	for (unsigned round = 0; !quota_charge(&account->quota, amount); round++)
		if (!owner->on_full || !owner->on_full(owner->arg, amount, round))
			return false;
	return true;
}

struct account *account_new(uint64_t base, struct account_owner owner, struct quota *parent)
{
	struct account *account = calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	account->quota.parent = parent ? parent : accounts_quota();
	account->quota.own = ACCOUNT_OWN;
	account->quota.limit = session_max;
	account->base = base + sizeof(*account);
	account->owner = owner;
	if (quota_charge(&account->quota, account->base))
		return account;
	free(account);
	return NULL;
}

void account_close(struct account *account)
{
	if (account)
		account_refund(account, account->base);
}

uint64_t account_held(const struct account *account)
{
	return quota_used(&account->quota);
}

uint64_t account_limit(const struct account *account)
{
	return quota_limit(&account->quota);
}

void account_explain(const struct account *account, uint64_t amount, char text[ACCOUNT_TEXT])
{
	const struct quota *own = &account->quota;
	unsigned long long held = quota_used(own), max = own->limit;
	int n = snprintf(text, ACCOUNT_TEXT,
		"it holds %llu MiB of this server's host memory and wants %llu KiB more, where ",
		held >> 20, (unsigned long long)amount >> 10);

	if (held + amount > max)
		snprintf(text + n, (size_t)(ACCOUNT_TEXT - n),
			"a client may hold %llu MiB (MPS_CLIENT_HOST_MIB)", max >> 20);
	else
		snprintf(text + n, (size_t)(ACCOUNT_TEXT - n),
			"all clients share %llu MiB, of which %llu MiB are taken, and no client "
			"may have more than it leaves to the others",
			(unsigned long long)all.limit >> 20,
			(unsigned long long)quota_used(&all) >> 20);
}

/* ---- blocks */

static struct block *block_of(void *memory)
{
	return (struct block *)memory - 1;
}

/* Includes what malloc() takes for itself. */
static uint64_t account_cost(uint64_t size)
{
	return ALIGN_UP(sizeof(struct block) + size + sizeof(size_t), (uint64_t)16);
}

void *account_alloc(struct account *account, uint64_t size, uint64_t kept)
{
	uint64_t amount = account_cost(size) + kept;
	struct block *block;

	if (account && !account_charge(account, amount))
		return NULL;
	block = calloc(1, sizeof(*block) + size);
	if (!block) {
		if (account)
			account_refund(account, amount);
		return NULL;
	}
	*block = (struct block){account, size, kept};
	return block + 1;
}

static void *block_resize(struct block *block, uint64_t size)
{
	uint64_t more = account_cost(size) - account_cost(block->size);
	struct account *account = block->account;
	struct block *moved;

	if (account && more > 0 && !account_charge(account, more))
		return NULL;
	moved = reallocarray(block, 1, sizeof(*block) + size);
	if (!moved) {
		if (account && more > 0)
			account_refund(account, more);
		return NULL;
	}
	moved->size = size;
	return moved + 1;
}

void *account_grow(struct account *account, void *memory, uint64_t n, uint64_t size)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > PTRDIFF_MAX - sizeof(struct block))
		return NULL;
	return memory ? block_resize(block_of(memory), bytes) : account_alloc(account, bytes, 0);
}

bool account_keep(void *memory, uint64_t more)
{
	struct block *block = block_of(memory);

	if (block->account && more > 0 && !account_charge(block->account, more))
		return false;
	block->kept += more;
	return true;
}

void account_unkeep(void *memory, uint64_t less)
{
	struct block *block = block_of(memory);

	block->kept -= less;
	if (block->account && less > 0)
		account_refund(block->account, less);
}

void account_free(void *memory)
{
	struct block *block = memory ? block_of(memory) : NULL;
	struct account *account = block ? block->account : NULL;
	uint64_t amount = block ? account_cost(block->size) + block->kept : 0;

	free(block);
	if (account)
		account_refund(account, amount);
}

void account_disown(void *memory)
{
	struct block *block = block_of(memory);

	if (block->account)
		account_refund(block->account, account_cost(block->size) + block->kept);
	block->account = NULL;
}
