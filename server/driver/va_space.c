/* SPDX-License-Identifier: Apache-2.0 */

#include "va_space.h"

#include <inttypes.h>

#include "layout.h"
#include "lock.h"
#include "server/util/log.h"
#include "server/session/fault.h"

static struct lock lock = LOCK_INIT(VA_SPACE);

static CUresult va_space_log(const char *what, uint64_t base, uint64_t size, CUresult result)
{
	if (result != CUDA_SUCCESS && !result_is_fault(result))
		log_line("The driver refused to %s %#" PRIx64 " to %#" PRIx64 ": %s", what, base,
			base + size, result_name(result));
	return result;
}

/*
 * Ranges that the driver returns before it considers the requested address: it leaves such
 * holes of a few GiB when the stacks of kernels grow.
 */
#define HOLES_MAX 64

/* Under the lock. Fills the holes with reservations, and frees those before it returns. */
static CUresult va_space_claim_over_holes(uint64_t base, uint64_t size)
{
	CUdeviceptr holes[HOLES_MAX], got;
	unsigned n = 0;
	CUresult result;

	for (;;) {
		result = va_space_log(
			"reserve", base, size, cuda.cuMemAddressReserve(&got, size, 0, base, 0));
		if (result != CUDA_SUCCESS || got == base)
			break;
		holes[n++] = got;
		if (n == HOLES_MAX || (got >= DEVICE_SPACE && got < DEVICE_SPACE_END)) {
			result = CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
	}
	while (n > 0)
		cuda.cuMemAddressFree(holes[--n], size);
	return result;
}

CUresult va_space_claim(uint64_t base, uint64_t size)
{
	lock_hold(&lock);

	return va_space_claim_over_holes(base, size);
}

CUresult va_space_map(uint64_t base, uint64_t size, CUmemGenericAllocationHandle handle)
{
	lock_hold(&lock);

	return cuda.cuMemMap(base, size, 0, handle, 0);
}

CUresult va_space_grant_access(uint64_t base, uint64_t size, CUdevice gpu, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, gpu}, flags};
	lock_hold(&lock);

	return cuda.cuMemSetAccess(base, size, &access, 1);
}

void va_space_unmap(uint64_t base, uint64_t size)
{
	lock_hold(&lock);

	(void)va_space_log("unmap", base, size, cuda.cuMemUnmap(base, size));
}

void va_space_free(uint64_t base, uint64_t size)
{
	lock_hold(&lock);

	(void)va_space_log("free", base, size, cuda.cuMemAddressFree(base, size));
}
