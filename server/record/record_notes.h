/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_NOTES_H
#define RECORD_NOTES_H

/*
 * What the messages of a record do not tell of its objects, when it is saved: where variables of a
 * library lie, when an event was recorded. A replay comes to the notes of an object directly behind
 * its `make', the last one first. One thread. A zero-initialised list is empty.
 */

#include "record_index.h"

struct record_note {
	uint32_t kind;  /* enum record_kind */
	uint32_t id;    /* of the object, which has not ended */
	uint32_t index; /* what the part of the session likes */
	uint32_t zero;
	uint64_t value;
};

struct record_notes {
	struct record_note *list;
	uint32_t *next; /* + 1: the next one of the same object; 0: none */
	uint32_t n, n_max;
	struct record_index heads; /* by kind and ID: the first one */
	bool is_short;             /* there was no memory for some */
};

void record_notes_fini(struct record_notes *notes);

void record_notes_add(
	struct record_notes *notes, uint8_t kind, uint32_t id, uint32_t index, uint64_t value);

/* NULL: the object has none, or no more. `*at' is 0 at first. */
const struct record_note *record_notes_next(
	const struct record_notes *notes, uint8_t kind, uint32_t id, uint32_t *at);

#endif
