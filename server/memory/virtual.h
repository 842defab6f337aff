/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIRTUAL_H
#define VIRTUAL_H

/*
 * Memory that a program maps itself: regions of addresses, allocations without an address,
 * and mappings. The session's worker only.
 */

#include "base.h"
#include "cuda_api.h"

struct device;
struct mover;
struct session;
struct session_device;

/* Whether all these bytes, in a region of the session, are mapped with some access. */
bool virtual_has(const struct session *session, uint64_t address, uint64_t size);

/* The GPU whose memory is mapped there; NULL: no mapping. */
const struct device *virtual_device(const struct session *session, uint64_t address);

/* A descriptor of these bytes, for which virtual_has() is true, goes to the client. */
void virtual_set_exported(struct session *session, uint64_t address, uint64_t size);

/*
 * Allocations of the mover's GPU leave it and come back, as chunks of an arena do: arena_evict(),
 * arena_return() and arena_returned(), but each as a whole. Those of more than `largest' bytes
 * stay. session_device::allocations_away counts their bytes. (virtual_evict.c)
 */
uint64_t virtual_evict(struct session *session, struct mover *mover, uint64_t bytes,
	uint64_t largest, unsigned *stays);
CUresult virtual_return(struct session *session, struct mover *mover);
void virtual_returned(struct session *session, struct session_device *sdev, CUresult result);

#endif
