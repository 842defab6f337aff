/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of SMs. Pure functions; run in any thread, since the number of SMs does
 * not change after cuInit().
 */

#include "sms.h"

#include "driver.h"

static void sm_set_add(struct sm_set *set, unsigned sm)
{
	set->words[sm / 64] |= UINT64_C(1) << (sm % 64);
}

struct sm_set sm_set_all(void)
{
	struct sm_set all = {0};

	for (unsigned sm = 0; sm < driver.n_sms; sm++)
		sm_set_add(&all, sm);
	return all;
}

unsigned sm_set_count(const struct sm_set *set)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(set->words); i++)
		n += (unsigned)__builtin_popcountll(set->words[i]);
	return n;
}

/* Takes the lowest set bit out of a word that is not 0. */
static unsigned take_lowest(uint64_t *word)
{
	unsigned bit = (unsigned)__builtin_ctzll(*word);

	*word &= *word - 1;
	return bit;
}

struct sm_set sm_set_take(struct sm_set *from, unsigned n)
{
	struct sm_set taken = {0};

	for (unsigned i = 0; i < ARRAY_SIZE(from->words); i++)
		for (; from->words[i] != 0 && n > 0; n--)
			sm_set_add(&taken, i * 64 + take_lowest(&from->words[i]));
	return taken;
}

uint32_t sm_set_list(const struct sm_set *set, uint16_t list[SMS_MAX])
{
	struct sm_set left = *set;
	uint32_t n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(left.words); i++)
		while (left.words[i] != 0)
			list[n++] = (uint16_t)(i * 64 + take_lowest(&left.words[i]));
	return n;
}
