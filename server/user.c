/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Users of a server that works for all. Loop thread; quotas: any thread.
 *
 * Invariant: an entry goes to another user only if it has no client and its quota is unused,
 * because blocks of a session may be freed long after its end.
 */

#include "user.h"

#include <stdlib.h>

#include "server/util/account.h"
#include "server.h"

/* What a user may always have. */
#define USER_OWN ((uint64_t)64 << 20)

struct user {
	struct user *next;
	uid_t uid;
	unsigned n_clients;
	struct quota quota;
};

static bool is_unused(const struct user *user)
{
	return user->n_clients == 0 && quota_used(&user->quota) == 0;
}

/* The user's entry, or an unused one. NULL: there is neither. */
static struct user *find_entry(const struct server *server, uid_t uid)
{
	struct user *unused = NULL;

	for (struct user *user = server->users; user; user = user->next) {
		if (user->uid == uid)
			return user;
		if (is_unused(user))
			unused = user;
	}
	return unused;
}

static struct user *get_user(struct server *server, uid_t uid)
{
	struct user *user = find_entry(server, uid);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->quota.parent = accounts_quota();
		user->quota.limit = accounts_quota()->limit;
		user->quota.own = USER_OWN;
		user->next = server->users;
		server->users = user;
	}
	user->uid = uid;
	return user;
}

int user_add_client(struct server *server, uid_t uid, struct user **ret_user)
{
	struct user *user = NULL;

	if (server->is_multiuser) {
		user = get_user(server, uid);
		if (!user)
			return -ENOMEM;
		if (user->n_clients >= USER_SESSIONS_MAX)
			return -EUSERS;
		user->n_clients++;
	}
	*ret_user = user;
	return 0;
}

void user_remove_client(struct user *user)
{
	if (user)
		user->n_clients--;
}

struct quota *user_quota(struct user *user)
{
	return user ? &user->quota : NULL;
}

void users_free(struct server *server)
{
	while (server->users) {
		struct user *user = server->users;

		server->users = user->next;
		free(user);
	}
}
