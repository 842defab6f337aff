/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sums of users. Loop thread.
 *
 * Invariant: the sums of a user only rise until the user is forgotten.
 */

#include "usage.h"

#include "daemon.h"
#include "tenant.h"

struct usage *usage_find(const struct usages *usages, uid_t uid)
{
	for (unsigned i = 0; i < usages->n; i++)
		if (usages->items[i]->uid == uid)
			return usages->items[i];
	return NULL;
}

/* The entry of the user without a tenant that was active longest ago; NULL: all have tenants. */
static struct usage *find_forgettable(struct daemon *daemon)
{
	struct usage *found = NULL;

	for (unsigned i = 0; i < daemon->usages.n; i++) {
		struct usage *usage = daemon->usages.items[i];

		if ((!found || usage->last_ms < found->last_ms) && !tenant_find(daemon, usage->uid))
			found = usage;
	}
	return found;
}

/* NULL without memory, or if no other user can be forgotten. */
static struct usage *usage_get(struct daemon *daemon, uid_t uid)
{
	struct usages *usages = &daemon->usages;
	struct usage *usage = usage_find(usages, uid);

	if (!usage && usages->n < USAGES_MAX) {
		usage = calloc(1, sizeof(*usage));
		if (!usage)
			return NULL;
		usages->items[usages->n++] = usage;
		usage->uid = uid;
	} else if (!usage) {
		usage = find_forgettable(daemon);
		if (!usage)
			return NULL;
		*usage = (struct usage){.uid = uid};
	}
	usage->last_ms = uv_now(&daemon->loop);
	return usage;
}

void usage_count(struct daemon *daemon, uid_t uid, enum usage_event event)
{
	struct usage *usage = usage_get(daemon, uid);

	daemon->usages.events[event]++;
	if (usage)
		usage->events[event]++;
}

void usage_add_ended(struct daemon *daemon, uid_t uid, const struct counts *counts)
{
	struct usage *usage = usage_get(daemon, uid);

	if (usage)
		counts_add(&usage->ended, counts);
}

void usages_fini(struct usages *usages)
{
	for (unsigned i = 0; i < usages->n; i++)
		free(usages->items[i]);
	*usages = (struct usages){0};
}
