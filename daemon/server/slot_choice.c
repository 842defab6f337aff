/* SPDX-License-Identifier: Apache-2.0 */

/* The slot that serves a client. Loop thread. */

#include "slot_choice.h"

#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/namespace.h"
#include "daemon/state/quarantine.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"

static struct slot *choose_isolated(
	struct tenant *tenant, const struct conn *client, struct error_message *error)
{
	uint32_t program = client->in.hello.program;
	unsigned n = client->tenant->account->n_isolated, uid = client->cred.uid;
	struct slot *slot = slot_find_isolated(tenant, uid, program);

	if (!slot && n < ISOLATED_MAX)
		slot = slot_get_isolated(tenant, uid, program);
	if (!slot)
		error_message_set(error, -EUSERS,
			"UID %u with its subordinate UIDs has %u isolated programs, each with a "
			"server of its own, which is the maximum: wait until one has ended, or "
			"%s",
			client->tenant->account->uid, n,
			client->in.hello.is_isolated
				? "start this one without MPS_ISOLATE"
				: "start this one in the directory of a server");
	return slot;
}

struct slot *slot_choose(struct conn *client, struct error_message *error)
{
	const struct frame_hello *hello = &client->in.hello;
	const struct group *group = groups_get(&client->daemon->groups, client->group);
	struct tenant *tenant = slots_tenant(client->daemon, client->cred.uid);

	if (!tenant) {
		error_message_set(error, -ENOMEM,
			"The MPS daemon is out of memory: it cannot serve another user");
		return NULL;
	}
	/* A named server has its own GPUs, and keeps its clients apart from others already. */
	if (group && group->namespace && *group->namespace->slot->name)
		return group->namespace->slot;
	if (!hello->is_isolated && !(client->daemon->is_socket_apart && !client->entry) &&
		!quarantine_holds(client->tenant, hello->program))
		return &tenant->shared;
	return choose_isolated(tenant, client, error);
}
