/* SPDX-License-Identifier: Apache-2.0 */

/*
 * UIDs that the daemon knows. Loop thread.
 *
 * Invariant: a tenant with a connection, a server or a waiting connection is
 * never freed.
 */

#include "tenant.h"

#include "daemon.h"
#include "quarantine.h"
#include "tenant_log.h"
#include "daemon/text/process.h"
#include "daemon/config/allowances.h"

static struct tenant **hash_chain(struct daemon *daemon, uid_t uid)
{
	return &daemon->tenants_by_uid[uid % ARRAY_SIZE(daemon->tenants_by_uid)];
}

struct tenant *tenant_find(struct daemon *daemon, uid_t uid)
{
	struct tenant *tenant = *hash_chain(daemon, uid);

	while (tenant && tenant->uid != uid)
		tenant = tenant->next;
	return tenant;
}

/* Whether the allowances equal those of a new account. */
static bool has_full_allowances(struct account *account, uint64_t now)
{
	return rate_limit_left(&account->control_lines.rate, now, CONTROL_LINES_MAX,
		       CONTROL_LINES_PER_S) == CONTROL_LINES_MAX &&
	       rate_limit_left(&account->server_lines.rate, now, SERVER_LINES_MAX,
		       SERVER_LINES_PER_S) == SERVER_LINES_MAX &&
	       rate_limit_left(&account->starts, now, STARTS_MAX, STARTS_PER_S) == STARTS_MAX;
}

/* Whether it equals a new tenant; another tenant keeps the allowances of its account. */
static bool equals_new(struct tenant *tenant)
{
	uint64_t now = uv_now(&tenant->daemon->loop);

	return slot_is_unused(&tenant->shared) && quarantine_is_empty(tenant) &&
	       (tenant->account->n_tenants > 1 || has_full_allowances(tenant->account, now));
}

static void tenant_free(struct tenant *tenant)
{
	if (tenant->account->n_tenants == 1)
		account_report_dropped(tenant->daemon, tenant->account);
	LIST_DROP(*hash_chain(tenant->daemon, tenant->uid), tenant);
	slots_free(tenant);
	list_remove(&tenant->link);
	list_remove(&tenant->link_in_account);
	tenant->account->n_tenants--;
	account_unref(tenant->account);
	tenant->daemon->n_tenants--;
	free(tenant);
}

void tenants_sweep(struct daemon *daemon)
{
	list_each_safe (struct tenant, tenant, &daemon->tenants, link) {
		slots_sweep(tenant);
		if (tenant->n_conns == 0 && !slots_are_needed(tenant) &&
			(daemon->is_over || equals_new(tenant)))
			tenant_free(tenant);
	}
}

/* The owner of the user namespace of the peer; 0: it has none, or that is not known. */
static uid_t peer_owner(int peer)
{
	_cleanup_close_ int pidfd = peer < 0 ? -EBADF : process_open_peer(peer);
	struct ucred cred;
	socklen_t size = sizeof(cred);
	uid_t owner;

	if (pidfd < 0 || getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0 ||
		cred.pid <= 0)
		return 0;
	return process_namespace_owner(pidfd, cred.pid, &owner) < 0 ? 0 : owner;
}

/* The caller owns a reference; NULL without memory. */
static struct account *find_account(struct daemon *daemon, uid_t uid, int peer)
{
	uid_t owner = uid;

	if (daemon_serves_others(daemon) && !daemon_trusts(daemon, uid))
		owner = accounts_owner(&daemon->accounts, uid, peer_owner(peer));
	return account_get(&daemon->accounts, owner);
}

/* Takes `account'; frees it on failure. */
static struct tenant *tenant_new(struct daemon *daemon, uid_t uid, struct account *account)
{
	struct tenant *tenant = calloc(1, sizeof(*tenant));

	if (!tenant) {
		account_unref(account);
		return NULL;
	}
	tenant->daemon = daemon;
	tenant->account = account;
	list_add_tail(&account->tenants, &tenant->link_in_account);
	account->n_tenants++;
	tenant->uid = uid;
	list_init(&tenant->conns);
	list_init(&tenant->slots);
	slot_init(&tenant->shared, tenant);
	list_add_tail(&daemon->tenants, &tenant->link);
	LIST_PUSH(*hash_chain(daemon, uid), tenant);
	daemon->n_tenants++;
	return tenant;
}

static bool has_space(const struct daemon *daemon, uid_t uid, const struct account *account)
{
	return daemon_trusts_server(daemon, uid) ||
	       account_may_take(account->n_tenants, daemon->n_tenants, TENANTS_MAX);
}

struct tenant *tenant_get(struct daemon *daemon, uid_t uid, int peer)
{
	struct tenant *tenant = tenant_find(daemon, uid);
	struct account *account;

	if (tenant)
		return tenant;
	account = find_account(daemon, uid, peer);
	if (!account)
		return NULL;
	if (!has_space(daemon, uid, account))
		tenants_sweep(daemon);
	if (!has_space(daemon, uid, account)) {
		account_unref(account);
		return NULL;
	}
	return tenant_new(daemon, uid, account);
}
