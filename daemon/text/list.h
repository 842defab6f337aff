/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIST_H
#define LIST_H

/*
 * A doubly linked list whose links lie within its items. A list does not own
 * its items. An item on no list points to itself, so removing it twice is
 * harmless.
 */

#include "base.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *list)
{
	list->next = list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
	return list->next == list;
}

static inline void list_add_tail(struct list *list, struct list *item)
{
	item->next = list;
	item->prev = list->prev;
	list->prev->next = item;
	list->prev = item;
}

static inline void list_remove(struct list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	list_init(item);
}

/* NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none. */
#define list_for_each(pos, head)                                                                   \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* Allows the loop's body to remove `pos', and only that. */
#define list_for_each_safe(pos, following, head)                                                   \
	for (struct list *pos = (head)->next, *following = pos->next; pos != (head);               \
		pos = following, following = pos->next)
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
