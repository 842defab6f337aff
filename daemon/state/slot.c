/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Slots. Loop thread; slot_queue.c has the waiting connections.
 *
 * Invariant: a slot with a process or with waiting connections is never freed.
 */

#include "slot.h"

#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "tenant.h"

/* Initialises a slot that serves that account. */
static void init_for(struct slot *slot, struct tenant *tenant, struct account *account)
{
	slot->tenant = tenant;
	slot->account = account_ref(account);
	list_init(&slot->clients);
	list_init(&slot->starters);
	list_init(&slot->enders);
	list_init(&slot->namespaces);
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
	slot->account->n_named -= *slot->name != '\0';
	account_unref(slot->account);
	free(slot->devices);
	if (slot != &slot->tenant->shared)
		free(slot);
}

void slots_free(struct tenant *tenant)
{
	list_each_safe (struct slot, slot, &tenant->slots, link)
		slot_free(slot);
}

void slots_sweep(struct tenant *tenant)
{
	list_each_safe (struct slot, slot, &tenant->slots, link)
		if (slot->is_isolated && slot_is_unused(slot))
			slot_free(slot);
}

void slot_name(const struct slot *slot, char name[SERVER_NAME_MAX])
{
	if (*slot->name)
		snprintf(name, SERVER_NAME_MAX, "%s", slot->name);
	else if (slot->is_isolated)
		snprintf(name, SERVER_NAME_MAX, "uid_%u_program_%08x", slot->uid, slot->program);
	else
		snprintf(name, SERVER_NAME_MAX, "uid_%u", slot->tenant->uid);
}

struct slot *slot_find_named(const struct daemon *daemon, const char *name)
{
	list_each (struct tenant, tenant, &daemon->tenants, link)
		list_each (struct slot, slot, &tenant->slots, link)
			if (*slot->name && strcmp(slot->name, name) == 0)
				return slot;
	return NULL;
}

struct slot *slot_new_named(struct tenant *tenant, const char *name, char *devices)
{
	struct slot *slot = calloc(1, sizeof(*slot));

	if (!slot) {
		free(devices);
		return NULL;
	}
	snprintf(slot->name, sizeof(slot->name), "%s", name);
	slot->devices = devices;
	slot->is_new = true;
	init_for(slot, tenant, tenant->account);
	slot->account->n_named++;
	return slot;
}

void slot_free_named(struct slot *slot)
{
	slot_free(slot);
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
	return slot->n_processes == 0 && !slot_is_waiting(slot) && list_empty(&slot->namespaces) &&
	       slot->n_partitions == 0 && slot_count_restarts(slot) == 0;
}

bool slots_are_needed(const struct tenant *tenant)
{
	list_each (const struct slot, slot, &tenant->slots, link)
		if (slot->n_processes > 0 || slot_is_waiting(slot) || *slot->name ||
			!list_empty(&slot->namespaces) || slot->n_partitions > 0)
			return true;
	return false;
}

/* ---- which slot */

struct slot *slot_find_isolated(const struct tenant *tenant, uid_t uid, uint32_t program)
{
	list_each (struct slot, slot, &tenant->slots, link)
		if (slot->is_isolated && slot->uid == uid && slot->program == program)
			return slot;
	return NULL;
}

struct slot *slot_get_isolated(struct tenant *tenant, uid_t uid, uint32_t program)
{
	struct slot *slot = slot_find_isolated(tenant, uid, program);
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

struct tenant *slots_tenant(struct daemon *daemon, uid_t uid)
{
	return tenant_get(
		daemon, daemon->config.is_multiuser ? daemon->config.server_uid : uid, -EBADF);
}

struct slot *slot_shared(struct daemon *daemon, uid_t uid)
{
	struct tenant *tenant = slots_tenant(daemon, uid);

	return tenant ? &tenant->shared : NULL;
}
