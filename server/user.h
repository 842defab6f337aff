/* SPDX-License-Identifier: Apache-2.0 */
#ifndef USER_H
#define USER_H

/*
 * The users of a server that works for all (-M): how many clients each has, and how much
 * host memory the server holds for them. Other servers have one user and need none of this.
 * Loop thread.
 */

#include <sys/types.h>

#include "server/util/quota.h"

struct server;
struct user;

/* Sessions of one user, out of SESSIONS_MAX for all. */
#define USER_SESSIONS_MAX 256u

/* Adds a client. *ret_user is NULL if the server has one user. 0, -EUSERS or -ENOMEM. */
int user_add_client(struct server *server, uid_t uid, struct user **ret_user);

/* A client has gone. NULL is fine. */
void user_remove_client(struct user *user);

/* The parent of the quotas of the user's sessions; NULL for NULL. */
struct quota *user_quota(struct user *user);

/* No session is left. */
void users_free(struct server *server);

#endif
