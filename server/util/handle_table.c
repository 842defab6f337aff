/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Handle tables in two levels: an empty table is small, and a look-up is two loads. A
 * worker.
 *
 * Invariant: a page stays until the table ends.
 */

#include "handle_table.h"

void handle_table_fini(struct handle_table *table)
{
	for (uint32_t i = 0; i < OBJECT_PAGES; i++) {
		account_free(table->pages[i]);
		table->pages[i] = NULL;
	}
	table->n_used = 0;
}

void *handle_get(const struct handle_table *table, uint32_t id)
{
	void **page;

	if (id >= OBJECT_IDS)
		return NULL;
	page = table->pages[id / OBJECT_PAGE];
	return page ? page[id % OBJECT_PAGE] : NULL;
}

int handle_put(struct handle_table *table, uint32_t id, void *object)
{
	void ***page;

	if (id >= OBJECT_IDS)
		return -EINVAL;
	page = &table->pages[id / OBJECT_PAGE];
	if (!*page)
		*page = account_alloc(table->account, OBJECT_PAGE * sizeof(void *), 0);
	if (!*page)
		return -ENOMEM;
	if ((*page)[id % OBJECT_PAGE])
		return -EEXIST;
	(*page)[id % OBJECT_PAGE] = object;
	table->n_used++;
	return 0;
}

void *handle_remove(struct handle_table *table, uint32_t id)
{
	void *object = handle_get(table, id);

	if (object) {
		table->pages[id / OBJECT_PAGE][id % OBJECT_PAGE] = NULL;
		table->n_used--;
	}
	return object;
}

void *handle_next(const struct handle_table *table, uint32_t *at)
{
	void *object = NULL;

	while (!object && table->n_used > 0 && *at < OBJECT_IDS) {
		if (table->pages[*at / OBJECT_PAGE])
			object = handle_get(table, (*at)++);
		else
			*at += OBJECT_PAGE;
	}
	return object;
}

void *handle_take(struct handle_table *table, uint32_t *at)
{
	void *object = NULL;

	while (!object && table->n_used > 0 && *at < OBJECT_IDS)
		object = handle_remove(table, (*at)++);
	return object;
}
