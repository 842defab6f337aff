/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_TABLES_H
#define FAKE_TABLES_H

/*
 * Shared by the parts of the counting driver: its lock, its ranges, and its abort with a
 * message when the server makes a forbidden request.
 */

#include "fake_cuda.h"
#include "server/driver/driver.h"
#include "server/device/device.h"

#define FAKE_RANGES_MAX 8192
#define GRANULARITY (2ull << 20)

struct range {
	uint64_t address, size;
};

struct table {
	struct range list[FAKE_RANGES_MAX];
	unsigned n;
};

/* Under the lock. */
extern struct table reserved, mapped, registered, globals;
extern uint64_t used_memory;

void must(bool condition, const char *what);
void table_add(struct table *table, uint64_t address, uint64_t size);
uint64_t table_remove(struct table *table, uint64_t address);
bool table_has_byte(const struct table *table, uint64_t address, uint64_t *ret_end);
void must_have(const struct table *table, uint64_t address, uint64_t size, const char *what);

/* Whether it is memory of the GPU: mapped, or a variable. */
void must_be_device(uint64_t address, uint64_t size);

/* Like the driver, copies and fills only within one registration. */
void must_be_pinned(uint64_t address, uint64_t size, const char *what);

/* Whether the GPU reaches it, of either kind. */
void must_be_reached(uint64_t address, uint64_t size);

/* Bytes, rows and slices of an array. */
void must_have_box_in_array(CUarray array, const uint64_t at[3], const uint64_t size[3]);

/* Zeroed memory of the driver, for free(): never NULL, even when the server's allocations fail. */
void *fake_alloc(size_t size);

/* A handle that does not exist. */
uint64_t fake_handle(void);

/* Every fake function begins with this: the lock, held until its end, and the switch. */
#define BEGIN()                                                                                    \
	CUresult failed_ = fake_begin();                                                           \
	_cleanup_(fake_endp) int held_ _unused_ = 0;                                               \
	if (failed_ != CUDA_SUCCESS)                                                               \
	return failed_

CUresult fake_begin(void);
void fake_endp(int *held);

/* Reads all bytes of a launch's parameters, which must be initialised. */
uint32_t fake_param_sum(void **extra);

/* Does what an operation of a stream or of a graph's node does. */
void fake_memory_op(const CUstreamBatchMemOpParams *op);

/* The functions of each part. */
void fake_graph_start(void);
void fake_green_start(void);

/* Whether it is the context of a green context. */
bool fake_is_green(CUcontext context);
bool fake_is_in_green(void); /* that of the calling thread */
void fake_link_start(void);
void fake_memory_start(void);
void fake_array_start(void);
void fake_work_start(void);

#endif
