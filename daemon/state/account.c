/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Accounts. Loop thread.
 *
 * Invariant: no UID of a guest belongs to the account of root.
 */

#include "account.h"

#include <stdlib.h>

#define PASSWD_PATH "/etc/passwd"

void accounts_init(struct accounts *accounts, const char *subuid_path)
{
	*accounts = (struct accounts){.subuid_path = subuid_path};
	list_init(&accounts->all);
}

void accounts_fini(struct accounts *accounts)
{
	subordinates_fini(&accounts->subordinates);
}

uid_t accounts_owner(struct accounts *accounts, uid_t uid, uid_t peer_owner)
{
	struct subordinates *subordinates = &accounts->subordinates;
	uid_t owner;

	subordinates_refresh(subordinates, accounts->subuid_path, PASSWD_PATH);
	owner = subordinates_owner(subordinates, uid);
	if (owner != uid || peer_owner == 0)
		return owner;
	/* The owner of a nested namespace may be a subordinate UID itself. */
	return subordinates_owner(subordinates, peer_owner);
}

static struct account **hash_chain(struct accounts *accounts, uid_t uid)
{
	return &accounts->by_uid[uid % ARRAY_SIZE(accounts->by_uid)];
}

static struct account *account_new(struct accounts *accounts, uid_t uid)
{
	struct account *account = calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	account->accounts = accounts;
	account->uid = uid;
	account->n_refs = 1;
	list_init(&account->tenants);
	list_add_tail(&accounts->all, &account->link);
	LIST_PUSH(*hash_chain(accounts, uid), account);
	return account;
}

struct account *account_get(struct accounts *accounts, uid_t uid)
{
	struct account *account = *hash_chain(accounts, uid);

	while (account && account->uid != uid)
		account = account->next;
	return account ? account_ref(account) : account_new(accounts, uid);
}

struct account *account_ref(struct account *account)
{
	account->n_refs++;
	return account;
}

void account_unref(struct account *account)
{
	if (!account || --account->n_refs > 0)
		return;
	LIST_DROP(*hash_chain(account->accounts, account->uid), account);
	list_remove(&account->link);
	free(account);
}

void account_note_start(struct account *account)
{
	list_remove(&account->link);
	list_add_tail(&account->accounts->all, &account->link);
}
