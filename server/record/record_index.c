/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keys and numbers in one table with open addresses. One thread.
 *
 * Invariant: between the place where a key would lie and the place where it lies, no slot is
 * empty. At most three quarters of the slots are taken.
 */

#include "record_index.h"

#include <string.h>

#define SLOTS_MIN 64u

struct record_slot {
	uint32_t low, high; /* of the key */
	uint32_t value;     /* + 1; 0: the slot is empty */
};

static uint32_t home_of(const struct record_index *index, uint64_t key)
{
	key *= 0x9e3779b97f4a7c15ull;
	return (uint32_t)((key >> 32) * index->n_slots >> 32);
}

static uint64_t key_of(const struct record_slot *slot)
{
	return (uint64_t)slot->high << 32 | slot->low;
}

static uint32_t next_of(const struct record_index *index, uint32_t at)
{
	return at + 1 == index->n_slots ? 0 : at + 1;
}

/* The slot of the key, or the empty slot where it would lie. The table has slots. */
static uint32_t find(const struct record_index *index, uint64_t key)
{
	uint32_t at = home_of(index, key);

	while (index->slots[at].value > 0 && key_of(&index->slots[at]) != key)
		at = next_of(index, at);
	return at;
}

static bool grow(struct record_index *index)
{
	struct record_index larger = {index->account, NULL, 0, 0};

	larger.n_slots = MAX(index->n_slots + index->n_slots / 2, SLOTS_MIN);
	larger.slots = account_alloc(index->account, larger.n_slots * sizeof(*larger.slots), 0);
	if (!larger.slots)
		return false;
	for (uint32_t i = 0; index->slots && i < index->n_slots; i++)
		if (index->slots[i].value > 0)
			larger.slots[find(&larger, key_of(&index->slots[i]))] = index->slots[i];
	account_free(index->slots);
	index->slots = larger.slots;
	index->n_slots = larger.n_slots;
	return true;
}

void record_index_fini(struct record_index *index)
{
	account_free(index->slots);
	*index = (struct record_index){.account = index->account};
}

uint64_t record_index_size(const struct record_index *index)
{
	return index->n_slots * sizeof(*index->slots);
}

bool record_index_get(const struct record_index *index, uint64_t key, uint32_t *ret_value)
{
	const struct record_slot *slot = index->n > 0 ? &index->slots[find(index, key)] : NULL;

	if (!slot || slot->value == 0)
		return false;
	*ret_value = slot->value - 1;
	return true;
}

bool record_index_put(struct record_index *index, uint64_t key, uint32_t value)
{
	struct record_slot *slot = index->slots ? &index->slots[find(index, key)] : NULL;

	if (slot && slot->value > 0) {
		slot->value = value + 1;
		return true;
	}
	if ((!slot || 4 * ((uint64_t)index->n + 1) > 3 * (uint64_t)index->n_slots) && !grow(index))
		return false;
	slot = &index->slots[find(index, key)];
	index->n++;
	*slot = (struct record_slot){(uint32_t)key, (uint32_t)(key >> 32), value + 1};
	return true;
}

/* How far `at' lies behind the place where its key would lie. */
static uint32_t distance(const struct record_index *index, uint32_t at)
{
	uint32_t home = home_of(index, key_of(&index->slots[at]));

	return at >= home ? at - home : at + index->n_slots - home;
}

/* Later keys move up, if they come closer to their places. */
void record_index_remove(struct record_index *index, uint64_t key)
{
	uint32_t hole, at;

	if (index->n == 0)
		return;
	hole = find(index, key);
	if (index->slots[hole].value == 0)
		return;
	index->n--;
	for (at = next_of(index, hole); index->slots[at].value > 0; at = next_of(index, at)) {
		uint32_t gap = at >= hole ? at - hole : at + index->n_slots - hole;

		if (distance(index, at) < gap)
			continue;
		index->slots[hole] = index->slots[at];
		hole = at;
	}
	index->slots[hole].value = 0;
}
