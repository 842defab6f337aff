/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Accounts and their blocks. Any thread, without a lock.
 *
 * Invariant: an account is charged with what its blocks cost and, until account_close(),
 * with its session's base. So nothing refers to the account when it holds no host memory.
 */

#include "account.h"

#include <pthread.h>
#include <stdio.h>

#include "log.h"
#include "number.h"

#define HOST_MIB_MAX (1u << 24)

struct account {
	struct resource_quotas quotas;
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
static uint64_t session_max;

static void account_start(void)
{
	session_max = number_setting("MPS_CLIENT_HOST_MIB", "MiB", 1, HOST_MIB_MAX, ACCOUNT_MAX_MIB)
		      << 20;
	log_line("Host memory for clients: %llu MiB each, %llu MiB in all",
		(unsigned long long)session_max >> 20,
		(unsigned long long)resource_of_server(RESOURCE_HOST_MEMORY)->limit >> 20);
}

static void account_refund(struct account *account, uint64_t amount)
{
	if (quota_refund(&account->quotas.of[RESOURCE_HOST_MEMORY], amount) == 0)
		free(account);
}

static bool account_charge_with(struct account *account, enum resource resource, uint64_t amount)
{
	const struct account_owner *owner = &account->owner;

	for (unsigned round = 0; !quota_charge(&account->quotas.of[resource], amount); round++)
		if (!owner->on_full || !owner->on_full(owner->arg, resource, amount, round))
			return false;
	return true;
}

static bool account_charge(struct account *account, uint64_t amount)
{
	return account_charge_with(account, RESOURCE_HOST_MEMORY, amount);
}

struct account *account_new(
	uint64_t base, struct account_owner owner, struct resource_quotas *parent)
{
	struct account *account = calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	pthread_once(&once, account_start);
	resource_quotas_init(&account->quotas, RESOURCE_OF_SESSION, parent);
	account->quotas.of[RESOURCE_HOST_MEMORY].limit = session_max;
	account->base = base + sizeof(*account);
	account->owner = owner;
	if (quota_charge(&account->quotas.of[RESOURCE_HOST_MEMORY], account->base))
		return account;
	free(account);
	return NULL;
}

void account_close(struct account *account)
{
	if (account)
		account_refund(account, account->base);
}

uint64_t account_taken(const struct account *account, enum resource resource)
{
	return quota_used(&account->quotas.of[resource]);
}

uint64_t account_held(const struct account *account)
{
	return account_taken(account, RESOURCE_HOST_MEMORY);
}

uint64_t account_limit(const struct account *account)
{
	return quota_limit(&account->quotas.of[RESOURCE_HOST_MEMORY]);
}

static void explain_memory(const struct account *account, uint64_t amount, char text[ACCOUNT_TEXT])
{
	const struct quota *own = &account->quotas.of[RESOURCE_HOST_MEMORY];
	const struct quota *all = resource_of_server(RESOURCE_HOST_MEMORY);
	unsigned long long held = quota_used(own), max = own->limit;
	int n = snprintf(text, ACCOUNT_TEXT,
		"it holds %llu MiB of this server's host memory and wants %llu KiB more, where ",
		held >> 20, (unsigned long long)amount >> 10);

	if (held + amount > max)
		snprintf(text + n, (size_t)(ACCOUNT_TEXT - n),
			"a client may hold %llu MiB (MPS_CLIENT_HOST_MIB)", max >> 20);
	else
		snprintf(text + n, (size_t)(ACCOUNT_TEXT - n),
			"all clients share %llu MiB, of which %llu MiB are taken, and no process "
			"or user may have more than it leaves to the others",
			(unsigned long long)all->limit >> 20,
			(unsigned long long)quota_used(all) >> 20);
}

void account_explain(const struct account *account, enum resource resource, uint64_t amount,
	char text[ACCOUNT_TEXT])
{
	const struct quota *all = resource_of_server(resource);

	if (resource == RESOURCE_HOST_MEMORY)
		explain_memory(account, amount, text);
	else
		snprintf(text, ACCOUNT_TEXT,
			"it has %llu %s and wants %llu more, where all clients share %llu, of "
			"which %llu are taken, and no process or user may have more than it "
			"leaves to the others",
			(unsigned long long)account_taken(account, resource),
			resource_name(resource), (unsigned long long)amount,
			(unsigned long long)all->limit, (unsigned long long)quota_used(all));
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

bool account_grow_list(
	struct account *account, void *list, uint32_t n, uint32_t *n_max, uint64_t size)
{
	uint32_t larger = MAX(2 * *n_max, 8u);
	void *grown;

	if (n < *n_max)
		return true;
	grown = account_grow(account, *(void **)list, larger, size);
	if (!grown)
		return false;
	*(void **)list = grown;
	*n_max = larger;
	return true;
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

bool account_take(void *memory, enum resource resource, uint64_t n)
{
	struct account *account = block_of(memory)->account;

	return !account || account_charge_with(account, resource, n);
}

void account_give(void *memory, enum resource resource, uint64_t n)
{
	struct account *account = block_of(memory)->account;

	if (account && n > 0)
		quota_refund(&account->quotas.of[resource], n);
}

bool account_charge_only(struct account *account, enum resource resource, uint64_t n)
{
	return quota_charge(&account->quotas.of[resource], n);
}

void account_force(struct account *account, enum resource resource, uint64_t n)
{
	quota_force(&account->quotas.of[resource], n);
}

void account_refund_only(struct account *account, enum resource resource, uint64_t n)
{
	quota_refund(&account->quotas.of[resource], n);
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
