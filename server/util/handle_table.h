/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANDLE_TABLE_H
#define HANDLE_TABLE_H

/*
 * Tables from the IDs that a client chooses to its objects. Each type has its own table, so
 * an ID of another type is not found. One thread: the session's worker. A table owns its
 * pages, not the objects.
 */

#include "account.h"

#define OBJECT_PAGE 1024u
#define OBJECT_PAGES 1024u
#define OBJECT_IDS (OBJECT_PAGE * OBJECT_PAGES)

/* A zero-initialised table is empty. */
struct handle_table {
	struct account *account; /* not owned: pays for the pages */
	void **pages[OBJECT_PAGES];
	uint32_t n_used; /* IDs in use */
};

void handle_table_fini(struct handle_table *table);

/* NULL: the ID is not in use. */
void *handle_get(const struct handle_table *table, uint32_t id);

/* 0, -EINVAL (the ID is out of range), -EEXIST, -ENOMEM. */
int handle_put(struct handle_table *table, uint32_t id, void *object);

/* Returns the object that had the ID, or NULL. */
void *handle_remove(struct handle_table *table, uint32_t id);

/* Any object, with an ID from *at on, which is 0 at first. NULL: there are no more. */
void *handle_next(const struct handle_table *table, uint32_t *at);

/* Removes any object, with an ID from *at on, which is 0 at first. NULL: there are no more. */
void *handle_take(struct handle_table *table, uint32_t *at);

#endif
