/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKING_H
#define BACKING_H

/*
 * The bytes of an allocation of cuMemCreate(): a chunk of the card that all processes
 * share, or a memfd. Any thread, under the driver's lock.
 */

#include "card.h"

struct backing {
	struct card_chunk chunk; /* a memfd begins at offset 0 */
	struct device *device;   /* NULL: memory of the host */
	bool is_of_card;
	bool is_charged; /* this process made it, for a device */
};

CUresult backing_new(struct device *device, size_t size, const CUmemAllocationProp *prop,
	struct backing *ret_backing);
/* Of a descriptor, which stays the caller's. Fills the properties that the bytes have. */
CUresult backing_import(int fd, CUmemAllocationProp *prop, struct backing *ret_backing);
/* A descriptor that keeps the bytes; -1 with errno. */
int backing_export(const struct backing *backing);
void backing_close(const struct backing *backing);

#endif
