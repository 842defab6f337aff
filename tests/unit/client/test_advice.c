/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Advice about parts of an allocation, compared with an array that has an entry for
 * each page, in random order.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "client/memory/advice.h"
#include "tests/unit/seed.h"

#define PAGE 4096u
#define PAGES 48u
#define STEPS 20000

static unsigned seed;

static unsigned next_random(unsigned n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % n;
}

static const CUmemLocation places[] = {
	{CU_MEM_LOCATION_TYPE_DEVICE, 0},
	{CU_MEM_LOCATION_TYPE_DEVICE, 63},
	{CU_MEM_LOCATION_TYPE_HOST, CU_DEVICE_CPU},
	{CU_MEM_LOCATION_TYPE_HOST_NUMA, 1},
};

static const CUmemLocation nowhere = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};

static void note(struct advice *page, CUmem_advise what, CUmemLocation place)
{
	uint64_t bit = 1ull << ((unsigned)place.id & 63);

	if (what == CU_MEM_ADVISE_SET_READ_MOSTLY || what == CU_MEM_ADVISE_UNSET_READ_MOSTLY)
		page->is_read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
	else if (what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION)
		page->preferred = place;
	else if (what == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
		page->preferred = nowhere;
	else if (what == ADVICE_PREFETCH)
		page->prefetched = place;
	else if (place.type != CU_MEM_LOCATION_TYPE_DEVICE)
		page->is_accessed_by_host = what == CU_MEM_ADVISE_SET_ACCESSED_BY;
	else if (what == CU_MEM_ADVISE_SET_ACCESSED_BY)
		page->accessed_by |= bit;
	else
		page->accessed_by &= ~bit;
}

static bool is_same(CUmemLocation a, CUmemLocation b)
{
	return a.type == b.type && a.id == b.id;
}

static void check(
	const struct advised *advised, const struct advice *pages, uint64_t offset, uint64_t size)
{
	struct advice common = advised_common(advised, offset, size);
	unsigned first = (unsigned)(offset / PAGE), last = (unsigned)((offset + size - 1) / PAGE);
	struct advice want = pages[first];

	for (unsigned i = first; i <= last; i++) {
		want.is_read_mostly &= pages[i].is_read_mostly;
		want.is_accessed_by_host &= pages[i].is_accessed_by_host;
		want.accessed_by &= pages[i].accessed_by;
		if (!is_same(want.preferred, pages[i].preferred))
			want.preferred = nowhere;
		if (!is_same(want.prefetched, pages[i].prefetched))
			want.prefetched = nowhere;
	}
	assert_true(is_same(common.preferred, want.preferred));
	assert_true(is_same(common.prefetched, want.prefetched));
	assert_int_equal(common.accessed_by, want.accessed_by);
	assert_int_equal(common.is_accessed_by_host, want.is_accessed_by_host);
	assert_int_equal(common.is_read_mostly, want.is_read_mostly);
}

static void range_random(uint64_t whole, uint64_t *ret_offset, uint64_t *ret_size)
{
	*ret_offset = next_random((unsigned)whole);
	*ret_size = 1 + next_random((unsigned)(whole - *ret_offset));
}

static void test_random(void **state)
{
	const uint64_t whole = PAGES * PAGE - 100; /* ends within a page */
	struct advised *advised = advised_new(whole);
	struct advice pages[PAGES];

	(void)state;
	seed = seed_read(1);
	assert_non_null(advised);
	for (unsigned i = 0; i < PAGES; i++)
		pages[i] = (struct advice){.preferred = nowhere, .prefetched = nowhere};
	check(advised, pages, 0, whole);
	for (unsigned step = 0; step < STEPS; step++) {
		CUmem_advise what = (CUmem_advise)next_random(7);
		CUmemLocation place = places[next_random(4)];
		uint64_t offset, size;

		range_random(whole, &offset, &size);
		assert_int_equal(advised_change(advised, offset, size, what, place), 0);
		for (uint64_t i = offset / PAGE; i <= (offset + size - 1) / PAGE; i++)
			note(&pages[i], what, place);
		range_random(whole, &offset, &size);
		check(advised, pages, offset, size);
	}
	advised_free(advised);
	advised_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
