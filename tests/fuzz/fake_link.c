/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The linker of the counting driver: it reads every input to its last byte, and its
 * output is as long as all inputs.
 */

#include <string.h>
#include <sys/mman.h>

#include "fake_tables.h"

#define MADE_MAX 40000

/* Memory that malloc() does not count, because tests measure the server's allocations. */
struct fake_linker {
	size_t size;
	uint8_t made[MADE_MAX];
};

static CUresult link_create(
	unsigned n, CUjit_option *options, void **values, CUlinkState *ret_linker)
{
	BEGIN();
	must(n == 0 || (options && values), "no options of a linker");
	*ret_linker = mmap(NULL, sizeof(struct fake_linker), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(*ret_linker != MAP_FAILED, "no memory");
	fake_counts.linkers++;
	return CUDA_SUCCESS;
}

static CUresult link_add(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned n, CUjit_option *options, void **values)
{
	struct fake_linker *linker = (void *)state;
	const uint8_t *bytes = data;
	uint8_t sum = 0;

	BEGIN();
	must(linker && name && (unsigned)type < CU_JIT_INPUT_NVVM, "an odd input");
	must(n == 0 || (options && values), "no options of an input");
	for (size_t i = 0; i < size; i++)
		sum ^= bytes[i];
	linker->made[linker->size % MADE_MAX] = sum;
	linker->size = MIN(linker->size + size, (size_t)MADE_MAX);
	return CUDA_SUCCESS;
}

static CUresult link_complete(CUlinkState state, void **ret_made, size_t *ret_size)
{
	struct fake_linker *linker = (void *)state;

	BEGIN();
	must(linker != NULL, "no linker");
	*ret_made = linker->made;
	*ret_size = linker->size;
	return CUDA_SUCCESS;
}

static CUresult link_destroy(CUlinkState state)
{
	BEGIN();
	must(state != NULL, "the end of no linker");
	munmap(state, sizeof(struct fake_linker));
	fake_counts.linkers--;
	return CUDA_SUCCESS;
}

void fake_link_start(void)
{
	cuda.cuLinkCreate_v2 = link_create;
	cuda.cuLinkAddData_v2 = link_add;
	cuda.cuLinkComplete = link_complete;
	cuda.cuLinkDestroy = link_destroy;
}
