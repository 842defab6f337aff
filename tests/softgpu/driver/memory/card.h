/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CARD_H
#define CARD_H

/*
 * One memory of each device for all processes: the file SOFTGPU_CARD. Without that
 * variable, each process has a memory of its own, and nothing here is called except
 * card_open() and card_is_shared().
 *
 * Any thread, under the driver's lock.
 */

#include "tests/softgpu/driver/driver.h"

/* Bytes of a device in the file. */
struct card_chunk {
	int fd; /* keeps the bytes, as each of its duplicates and mappings does */
	uint64_t offset, size;
	uint32_t tag; /* of its maker, below GRANULARITY */
};

CUresult card_open(void);
bool card_is_shared(void);

/* What all processes have of the device's memory. */
size_t card_used(const struct device *device);

/* Memory that the file does not hold: this process has it until card_refund() or its end. */
CUresult card_charge(struct device *device, size_t size);
void card_refund(struct device *device, size_t size);

/* New bytes, which are zero. */
CUresult card_chunk_new(
	const struct device *device, size_t size, uint32_t tag, struct card_chunk *ret_chunk);
/* The chunk behind a descriptor, which stays the caller's; false: it is none of this card. */
bool card_chunk_find(int fd, struct card_chunk *ret_chunk, int *ret_ordinal);
/* Closes the descriptor. The bytes go if it was the last one. */
void card_chunk_close(const struct card_chunk *chunk);

#endif
