/* SPDX-License-Identifier: Apache-2.0 */
#ifndef USER_H
#define USER_H

/*
 * The users of a server that works for all (-M): how many clients each has, and
 * how much host memory these make the server hold. Other servers have one user
 * and need none of this. Loop thread.
 */

#include <sys/types.h>

#include "server/util/quota.h"

struct server;
struct user;

/* Sessions of one user, of SESSIONS_MAX for all. */
#define USER_SESSIONS_MAX 256u

/* One client more: *ret_user is NULL where the server has one user. 0, -EUSERS or -ENOMEM. */
int user_add_client(struct server *server, uid_t uid, struct user **ret_user);

/* It has gone. NULL is fine. */
void user_remove_client(struct user *user);

/* The parent of the quotas of its sessions; NULL for NULL. */
struct quota *user_quota(struct user *user);

/* No session is left. */
void users_free(struct server *server);

#endif
