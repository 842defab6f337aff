/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_INDEX_H
#define RECORD_INDEX_H

/*
 * A table from keys of 64 bits to numbers, for the record of a session. One thread. A
 * zero-initialised table is empty.
 */

#include "server/util/account.h"

struct record_slot;

struct record_index {
	struct account *account; /* not owned: pays for the table; NULL: the server */
	struct record_slot *slots;
	uint32_t n, n_slots;
};

void record_index_fini(struct record_index *index);

/* False: the key is not there. */
bool record_index_get(const struct record_index *index, uint64_t key, uint32_t *ret_value);

/* Adds the key, or replaces its value. False: there is no memory. */
bool record_index_put(struct record_index *index, uint64_t key, uint32_t value);

/* Its bytes. */
uint64_t record_index_size(const struct record_index *index);

/* A key that is not there is fine. */
void record_index_remove(struct record_index *index, uint64_t key);

#endif
