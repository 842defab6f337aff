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

/* NOLINTBEGIN(bugprone-macro-parentheses): names that are declared or are types take none. */

/* Each item, of that type, of the list whose links are the items' member `link'. */
#define list_each(type, pos, head, link)                                                           \
	for (type *pos = container_of((head)->next, type, link); &pos->link != (head);             \
		pos = container_of(pos->link.next, type, link))

/* Allows the loop's body to remove `pos', and only that. */
#define list_each_safe(type, pos, head, link)                                                      \
	for (type *pos = container_of((head)->next, type, link),                                   \
		  *pos##_next = container_of(pos->link.next, type, link);                          \
		&pos->link != (head);                                                              \
		pos = pos##_next, pos##_next = container_of(pos##_next->link.next, type, link))

/* NOLINTEND(bugprone-macro-parentheses) */

#endif
