/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice about managed memory, prefetch and discard, and the attributes of ranges
 * that result, which are the only effect.
 *
 * The client library's code (advice.c) keeps what was advised. Sharing it hides
 * no fault: the client library answers these calls itself, and no test compares
 * its answer with one from here. tests/programs/driver_api/managed_ranges.c expects what a
 * real driver answers, and tests/unit/client/test_advice.c compares the code
 * with an array that has an entry for each page.
 *
 * Runs in any thread, under the driver's lock. Answers as driver 580 does.
 */

#include "memory.h"
#include "client/memory/advice.h"
#include "tests/softgpu/driver/stream/stream.h"

struct batch {
	const CUdeviceptr *ptrs;
	const size_t *sizes;
	size_t n;
	unsigned long long flags;
	CUstream stream;
};

/* The location of entry i holds from first[i] on. */
struct places {
	const CUmemLocation *places;
	const size_t *first;
	size_t n;
};

static CUresult place_check(CUmemLocation *place)
{
	if (place->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return advice_check_host(place);
	return device_get(place->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static struct range *managed_find(CUdeviceptr dptr, size_t count)
{
	struct range *range = range_find(dptr);

	if (!range || range->kind != RANGE_MANAGED || count == 0 ||
		!range_ok(dptr - range->start, count, range->end - range->start))
		return NULL;
	if (!range->advised)
		range->advised = advised_new(range->end - range->start);
	return range->advised ? range : NULL;
}

static CUresult note(CUdeviceptr dptr, size_t count, CUmem_advise what, CUmemLocation place)
{
	struct range *range = managed_find(dptr, count);

	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	return advised_change(range->advised, dptr - range->start, count, what, place) < 0
		       ? CUDA_ERROR_OUT_OF_MEMORY
		       : CUDA_SUCCESS;
}

void managed_prefer(struct range *range, CUmemLocation place)
{
	if (place.type == CU_MEM_LOCATION_TYPE_DEVICE || place.type == CU_MEM_LOCATION_TYPE_HOST)
		(void)note(range->start, range->end - range->start,
			CU_MEM_ADVISE_SET_PREFERRED_LOCATION, place);
}

static CUresult advise(CUdeviceptr dptr, size_t count, CUmem_advise what, CUmemLocation place)
{
	const bool is_accessed =
		what == CU_MEM_ADVISE_SET_ACCESSED_BY || what == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
	const bool is_preferred = what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
	const bool is_part = place.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
			     place.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	CUresult result = CUDA_SUCCESS;

	if (what < CU_MEM_ADVISE_SET_READ_MOSTLY || what > CU_MEM_ADVISE_UNSET_ACCESSED_BY ||
		(is_accessed && is_part))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_accessed || is_preferred)
		result = place_check(&place);
	if (result != CUDA_SUCCESS)
		return result;
	if (managed_find(dptr, count) && managed_find(dptr, count)->is_pooled)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (is_preferred && is_part) /* from then on, no location is reported */
		what = CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
	return note(dptr, count, what, place);
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	ENTER(CALL_CONTEXT);
	return advise(devPtr, count, advice, advice_location(device));
}

CUresult cuMemAdvise_v2(
	CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	ENTER(CALL_CONTEXT);
	return advise(devPtr, count, advice, location);
}

static CUresult prefetch(
	CUdeviceptr dptr, size_t count, CUmemLocation place, unsigned flags, CUstream handle)
{
	struct stream *stream;
	CUresult result = flags ? CUDA_ERROR_INVALID_VALUE : place_check(&place);

	if (result == CUDA_SUCCESS)
		result = managed_find(dptr, count) ? stream_get(handle, &stream)
						   : CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? note(dptr, count, ADVICE_PREFETCH, place) : result;
}

ENTER_STREAM(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t count, CUdevice device, CUstream stream),
	prefetch(ptr, count, advice_location(device), 0, stream))
ENTER_STREAM(cuMemPrefetchAsync_v2,
	(CUdeviceptr ptr, size_t count, CUmemLocation location, unsigned flags, CUstream stream),
	prefetch(ptr, count, location, flags, stream))

/* The default stream of a batch is that of the thread. */
static CUresult batch_check(const struct batch *batch)
{
	struct stream *stream;

	if (!batch->ptrs || !batch->sizes || batch->n == 0 || batch->flags != 0 || !batch->stream ||
		batch->stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < batch->n; i++)
		if (!managed_find(batch->ptrs[i], batch->sizes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	return stream_get(batch->stream, &stream);
}

static CUresult places_check(const struct places *places, size_t n_ranges)
{
	CUresult result = CUDA_SUCCESS;

	if (!places->places || !places->first || places->n == 0 || places->first[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < places->n && result == CUDA_SUCCESS; i++) {
		CUmemLocation place = places->places[i];

		if (places->first[i] >= n_ranges ||
			(i > 0 && places->first[i] <= places->first[i - 1]))
			return CUDA_ERROR_INVALID_VALUE;
		result = place_check(&place);
	}
	return result;
}

static CUresult prefetch_batch(const struct batch *batch, const struct places *places)
{
	CUresult result = batch_check(batch);

	if (result == CUDA_SUCCESS)
		result = places_check(places, batch->n);
	for (size_t i = 0, k = 0; i < batch->n && result == CUDA_SUCCESS; i++) {
		k += k + 1 < places->n && places->first[k + 1] == i;
		result = prefetch(
			batch->ptrs[i], batch->sizes[i], places->places[k], 0, batch->stream);
	}
	return result;
}

ENTER_STREAM(cuMemDiscardBatchAsync,
	(CUdeviceptr * ptrs, size_t *sizes, size_t count, unsigned long long flags,
		CUstream stream),
	batch_check(&(struct batch){ptrs, sizes, count, flags, stream}))
ENTER_STREAM(cuMemPrefetchBatchAsync,
	(CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *places, size_t *first,
		size_t n_places, unsigned long long flags, CUstream stream),
	prefetch_batch(&(struct batch){ptrs, sizes, count, flags, stream},
		&(struct places){places, first, n_places}))
/* Discarded memory keeps its contents, as is allowed. */
ENTER_STREAM(cuMemDiscardAndPrefetchBatchAsync,
	(CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *places, size_t *first,
		size_t n_places, unsigned long long flags, CUstream stream),
	prefetch_batch(&(struct batch){ptrs, sizes, count, flags, stream},
		&(struct places){places, first, n_places}))

static void tell_accessing(const struct advice *advice, int *ids, size_t n)
{
	size_t k = 0;

	for (int i = 0; i < driver.n_devices && k < n; i++)
		if (advice->accessed_by >> i & 1)
			ids[k++] = i;
	if (advice->is_accessed_by_host && k < n)
		ids[k++] = CU_DEVICE_CPU;
	while (k < n)
		ids[k++] = CU_DEVICE_INVALID;
}

/* Before there were kinds of locations, a part of the host was the host. */
static int number_of(CUmemLocation place)
{
	return place.type == CU_MEM_LOCATION_TYPE_DEVICE ||
			       place.type == CU_MEM_LOCATION_TYPE_INVALID
		       ? place.id
		       : CU_DEVICE_CPU;
}

static CUresult tell(
	const struct advice *advice, CUmem_range_attribute attribute, int *value, size_t size)
{
	const bool is_accessing = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
	const int values[] = {
		[CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY] = advice->is_read_mostly,
		[CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION] = number_of(advice->preferred),
		[CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION] = number_of(advice->prefetched),
		[CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE] = (int)advice->preferred.type,
		[CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID] = advice->preferred.id,
		[CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE] = (int)advice->prefetched.type,
		[CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID] = advice->prefetched.id,
	};

	if (!value || size == 0 || size % sizeof(int) != 0 || attribute == 0 ||
		attribute >= sizeof(values) / sizeof(*values) ||
		(!is_accessing && size != sizeof(int)))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_accessing)
		tell_accessing(advice, value, size / sizeof(int));
	else
		*value = values[attribute];
	return CUDA_SUCCESS;
}

static CUresult tell_all(void **data, const size_t *sizes, const CUmem_range_attribute *attributes,
	size_t n, CUdeviceptr dptr, size_t count)
{
	const struct range *range = managed_find(dptr, count);
	CUresult result = CUDA_SUCCESS;
	struct advice advice;

	if (!range || !data || !sizes || !attributes || n == 0)
		return CUDA_ERROR_INVALID_VALUE;
	advice = advised_common(range->advised, dptr - range->start, count);
	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++)
		result = tell(&advice, attributes[i], data[i], sizes[i]);
	return result;
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
	CUdeviceptr devPtr, size_t count)
{
	ENTER(CALL_CONTEXT);
	return tell_all(&data, &dataSize, &attribute, 1, devPtr, count);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
	size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	ENTER(CALL_CONTEXT);
	return tell_all(data, dataSizes, attributes, numAttributes, devPtr, count);
}
