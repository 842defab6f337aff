/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes and users of a server. Loop thread; quotas: any thread.
 *
 * Invariant: an entry goes to another process or user only if it has no session and its quotas
 * are unused, because blocks of a session may be freed long after its end. The entries of
 * processes whose user is unused are unused, too.
 */

#include "sharer.h"

#include <stdlib.h>

#include "frame.h"
#include "server.h"

struct sharer {
	struct sharer *next;
	struct sharer *user; /* of a process; NULL: of the only user, or this is a user */
	uint64_t key;        /* of a process or of a user */
	unsigned n_sessions; /* of a user: of all processes */
	struct resource_quotas quotas;
};

/* A process that this server cannot see, because of namespaces, has no PID. */
static uint64_t process_key(const struct frame_client *client)
{
	return client->pid > 0 ? client->pid : UINT64_MAX - client->id;
}

/* What an entry holds is charged together with blocks of host memory. */
static bool is_unused(const struct sharer *sharer)
{
	return sharer->n_sessions == 0 && quota_used(&sharer->quotas.of[RESOURCE_HOST_MEMORY]) == 0;
}

/* The entry, or an unused one. NULL: there is neither. */
static struct sharer *find_entry(
	const struct server *server, const struct sharer *user, uint64_t key)
{
	struct sharer *unused = NULL;

	for (struct sharer *sharer = server->sharers; sharer; sharer = sharer->next) {
		if (sharer->user == user && sharer->key == key)
			return sharer;
		if (is_unused(sharer) && sharer != user)
			unused = sharer;
	}
	return unused;
}

static struct sharer *make_entry(struct server *server)
{
	struct sharer *sharer = calloc(1, sizeof(*sharer));

	if (!sharer)
		return NULL;
	LIST_PUSH(server->sharers, sharer);
	return sharer;
}

/* NULL: there is no memory. */
static struct sharer *get_entry(
	struct server *server, enum resource_level level, struct sharer *user, uint64_t key)
{
	struct sharer *sharer = find_entry(server, user, key);

	if (!sharer)
		sharer = make_entry(server);
	if (!sharer || !is_unused(sharer))
		return sharer;
	sharer->user = user;
	sharer->key = key;
	resource_quotas_init(&sharer->quotas, level, user ? &user->quotas : NULL);
	return sharer;
}

int sharer_add_session(
	struct server *server, const struct frame_client *client, struct sharer **ret_process)
{
	struct sharer *user = NULL, *process;

	if (server->is_multiuser) {
		user = get_entry(server, RESOURCE_OF_USER, NULL, client->account);
		if (!user)
			return -ENOMEM;
	}
	process = get_entry(server, RESOURCE_OF_PROCESS, user, process_key(client));
	if (!process)
		return -ENOMEM;
	if (!quota_charge(&process->quotas.of[RESOURCE_SESSIONS], 1))
		return -EUSERS;
	process->n_sessions++;
	if (user)
		user->n_sessions++;
	*ret_process = process;
	return 0;
}

void sharer_remove_session(struct sharer *process)
{
	if (!process)
		return;
	quota_refund(&process->quotas.of[RESOURCE_SESSIONS], 1);
	process->n_sessions--;
	if (process->user)
		process->user->n_sessions--;
}

struct resource_quotas *sharer_quotas(struct sharer *process)
{
	return &process->quotas;
}

void sharers_free(struct server *server)
{
	while (server->sharers) {
		struct sharer *sharer = LIST_POP(server->sharers);

		free(sharer);
	}
}
