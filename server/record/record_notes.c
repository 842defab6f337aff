/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Notes of objects, the last one first. One thread.
 *
 * Invariant: each note is in the list of its object.
 */

#include "record_notes.h"

#include "record.h"

void record_notes_fini(struct record_notes *notes)
{
	free(notes->list);
	free(notes->next);
	record_index_fini(&notes->heads);
	*notes = (struct record_notes){0};
}

static bool make_space(struct record_notes *notes)
{
	uint32_t max = MAX(2 * notes->n_max, 64u);
	struct record_note *list;
	uint32_t *next;

	if (notes->n < notes->n_max)
		return true;
	list = reallocarray(notes->list, max, sizeof(*list));
	if (!list)
		return false;
	notes->list = list;
	next = reallocarray(notes->next, max, sizeof(*next));
	if (!next)
		return false;
	notes->next = next;
	notes->n_max = max;
	return true;
}

void record_notes_add(
	struct record_notes *notes, uint8_t kind, uint32_t id, uint32_t index, uint64_t value)
{
	uint64_t key = record_id_key(kind, id);
	uint32_t head;

	if (!make_space(notes)) {
		notes->is_short = true;
		return;
	}
	notes->next[notes->n] = record_index_get(&notes->heads, key, &head) ? head + 1 : 0;
	notes->list[notes->n] = (struct record_note){kind, id, index, 0, value};
	if (!record_index_put(&notes->heads, key, notes->n))
		notes->is_short = true;
	notes->n++;
}

const struct record_note *record_notes_next(
	const struct record_notes *notes, uint8_t kind, uint32_t id, uint32_t *at)
{
	uint32_t head;

	if (*at == 0 && record_index_get(&notes->heads, record_id_key(kind, id), &head))
		*at = head + 1;
	else if (*at > 0)
		*at = notes->next[*at - 1];
	return *at > 0 ? &notes->list[*at - 1] : NULL;
}
