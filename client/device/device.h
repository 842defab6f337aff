/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_H
#define DEVICE_H

/*
 * The GPUs that this process sees: those of the server, as CUDA_VISIBLE_DEVICES
 * chooses and orders them. Fixed by cuInit(). Any thread.
 */

#include "client/util/api.h"
#include "layout.h"

#define DEVICE_LIMITS 16

struct context;

struct device {
	struct context *primary; /* there from the start, active only while retained */
	unsigned index;          /* the server's number of it */
	uint64_t memory_limit;   /* of our environment (memory_limit.h); ~0: none */
	uint32_t is_open;        /* atomic: what follows is filled */
	uint32_t n_sms;          /* that the process has of it */
	int32_t priority_least, priority_greatest;
	uint64_t heap, heap_size; /* this session's device addresses */
	uint64_t granularity;
	uint64_t limits[DEVICE_LIMITS]; /* of each CUlimit; ~0: refused */
};

/* The part of cuInit() that can fail. Once; later calls return the same. */
CUresult devices_init(void);

unsigned device_count(void);

/* NULL: no such ordinal. */
struct device *device_get(CUdevice ordinal);

/* What the server told of it; never changes. */
const struct device_facts *device_facts(const struct device *device);

/* The GPU's memory, or how much of it this process may have. */
uint64_t device_total_memory(const struct device *device);

/* What it can do with the memory of the other. */
const struct peer_facts *device_peer_facts(const struct device *device, const struct device *other);
bool device_reaches(const struct device *device, const struct device *other);

/* The other by the server's number: this process may not see it. */
bool device_reaches_index(const struct device *device, uint32_t other);

/* CUresult of asking, as the driver answered the server. */
CUresult device_attribute(const struct device *device, unsigned attribute, int *ret_value);

/* The session's first use of the GPU: its context is made if there is none. */
CUresult device_open(struct device *device);

#endif
