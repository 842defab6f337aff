/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The slot that serves a client. Loop thread; slot_queue.c has the waiting
 * connections.
 *
 * Invariant: a slot with a server or with waiting connections is never freed.
 */

#include "slot.h"

#include "daemon.h"
#include "quarantine.h"
#include "tenant.h"
#include "daemon/config/allowances.h"
#include "daemon/conn/conn.h"

/* Initialises a slot that serves that account. */
static void init_for(struct slot *slot, struct tenant *tenant, struct account *account)
{
	slot->tenant = tenant;
	slot->account = account_ref(account);
	list_init(&slot->clients);
	list_init(&slot->starters);
	list_add_tail(&tenant->slots, &slot->link);
}

void slot_init(struct slot *slot, struct tenant *tenant)
{
	init_for(slot, tenant, tenant->account);
}

static void slot_free(struct slot *slot)
{
	list_remove(&slot->link);
	slot->account->n_isolated -= slot->is_isolated;
	account_unref(slot->account);
	if (slot != &slot->tenant->shared)
		free(slot);
}

void slots_free(struct tenant *tenant)
{
	list_for_each_safe (item, following, &tenant->slots)
		slot_free(container_of(item, struct slot, link));
}

void slots_sweep(struct tenant *tenant)
{
	list_for_each_safe (item, following, &tenant->slots) {
		struct slot *slot = container_of(item, struct slot, link);

		if (slot->is_isolated && slot_is_unused(slot))
			slot_free(slot);
	}
}

bool slot_is_waiting(const struct slot *slot)
{
	return !list_empty(&slot->clients) || !list_empty(&slot->starters);
}

unsigned slot_count_restarts(struct slot *slot)
{
	uint64_t now = uv_now(&slot->tenant->daemon->loop);
	unsigned n_old = 0;

	while (n_old < slot->n_restarts && now - slot->restarts_ms[n_old] >= RESTARTS_WINDOW_MS)
		n_old++;
	slot->n_restarts -= n_old;
	memmove(slot->restarts_ms, slot->restarts_ms + n_old,
		slot->n_restarts * sizeof(slot->restarts_ms[0]));
	return slot->n_restarts;
}

bool slot_is_unused(struct slot *slot)
{
	return !slot->server && !slot_is_waiting(slot) && slot_count_restarts(slot) == 0;
}

bool slots_are_needed(const struct tenant *tenant)
{
	list_for_each (item, &tenant->slots) {
		const struct slot *slot = container_of(item, struct slot, link);

		if (slot->server || slot_is_waiting(slot))
			return true;
	}
	return false;
}

static uint64_t first_queue_number(const struct list *waiting)
{
	if (list_empty(waiting))
		return UINT64_MAX;
	return container_of(waiting->next, const struct conn, wait)->queue_number;
}

uint64_t slot_first_waiting(const struct slot *slot)
{
	return MIN(first_queue_number(&slot->clients), first_queue_number(&slot->starters));
}

/* ---- which slot */

/* NULL: not found. */
static struct slot *find_isolated(const struct tenant *tenant, uid_t uid, uint32_t program)
{
	list_for_each (item, &tenant->slots) {
		struct slot *slot = container_of(item, struct slot, link);

		if (slot->is_isolated && slot->uid == uid && slot->program == program)
			return slot;
	}
	return NULL;
}

struct slot *slot_get_isolated(struct tenant *tenant, uid_t uid, uint32_t program)
{
	struct slot *slot = find_isolated(tenant, uid, program);
	struct tenant *user;

	if (slot)
		return slot;
	user = tenant_get(tenant->daemon, uid, -EBADF);
	slot = user ? calloc(1, sizeof(*slot)) : NULL;
	if (!slot)
		return NULL;
	slot->is_isolated = true;
	slot->uid = uid;
	slot->program = program;
	init_for(slot, tenant, user->account);
	slot->account->n_isolated++;
	return slot;
}

/* With -M the tenant of the server's user serves all users. */
static struct tenant *serving_tenant(struct daemon *daemon, uid_t uid)
{
	return tenant_get(
		daemon, daemon->config.is_multiuser ? daemon->config.server_uid : uid, -EBADF);
}

struct slot *slot_shared(struct daemon *daemon, uid_t uid)
{
	struct tenant *tenant = serving_tenant(daemon, uid);

	return tenant ? &tenant->shared : NULL;
}

static struct slot *choose_isolated(
	struct tenant *tenant, const struct conn *client, struct error_message *error)
{
	uint32_t program = client->in.hello.program;
	unsigned n = client->tenant->account->n_isolated, uid = client->cred.uid;
	struct slot *slot = find_isolated(tenant, uid, program);

	if (!slot && n < ISOLATED_MAX)
		slot = slot_get_isolated(tenant, uid, program);
	if (!slot)
		error_message_set(error, -EUSERS,
			"UID %u with its subordinate UIDs has %u isolated programs, each with a "
			"server of its own, which is the maximum: wait until one has ended, or "
			"start this one without MPS_ISOLATE",
			client->tenant->account->uid, n);
	return slot;
}

struct slot *slot_choose(struct conn *client, struct error_message *error)
{
	const struct frame_hello *hello = &client->in.hello;
	struct tenant *tenant = serving_tenant(client->daemon, client->cred.uid);

	if (!tenant) {
		error_message_set(error, -ENOMEM,
			"The MPS daemon is out of memory: it cannot serve another user");
		return NULL;
	}
	if (!hello->is_isolated && !quarantine_holds(client->tenant, hello->program))
		return &tenant->shared;
	return choose_isolated(tenant, client, error);
}
