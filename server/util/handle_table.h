/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANDLE_TABLE_H
#define HANDLE_TABLE_H

/*
 * Tables from the ids that a client picks to its objects, one table a type, so
 * that an id of another type is simply not there. One thread: the session's
 * worker. Tables own their pages, not the objects.
 */

#include "account.h"

#define OBJECT_PAGE 1024u
#define OBJECT_PAGES 1024u
#define OBJECT_IDS (OBJECT_PAGE * OBJECT_PAGES)

/* Zero-initialised is empty. */
struct handle_table {
	struct account *account; /* not owned: that pays for the pages */
	void **pages[OBJECT_PAGES];
	uint32_t n_used; /* ids in use */
};

void handle_table_fini(struct handle_table *table);

/* NULL: nobody has that id. */
void *handle_get(const struct handle_table *table, uint32_t id);

/* 0, -EINVAL (no such id can be), -EEXIST, -ENOMEM. */
int handle_put(struct handle_table *table, uint32_t id, void *object);

/* The object that had the id, or NULL. */
void *handle_remove(struct handle_table *table, uint32_t id);

#endif
