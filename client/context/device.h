/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_H
#define DEVICE_H

/*
 * The GPUs that this process sees: the server's GPUs, as CUDA_VISIBLE_DEVICES
 * selects and orders them. Fixed by cuInit(). Any thread.
 */

#include "layout.h"
#include "client/util/api.h"

#define DEVICE_LIMITS 16

struct context;

struct device {
	struct context *primary; /* exists from the start, active only while retained */
	unsigned index;          /* the server's number for it */
	uint64_t memory_limit; /* from this process's environment (memory_limit.h); ~0: no limit */
	_Atomic uint32_t is_open; /* the fields that follow are set */
	uint32_t n_sms;           /* SMs that the process has on it */
	int32_t priority_least, priority_greatest;
	uint64_t heap, heap_size; /* this session's device addresses */
	uint64_t granularity;
	uint64_t limits[DEVICE_LIMITS]; /* of each CUlimit; ~0: not supported */
};

/* The part of cuInit() that can fail. Runs once; later calls return the same result. */
CUresult devices_init(void);

unsigned device_count(void);

/* NULL: there is no such ordinal. */
struct device *device_get(CUdevice ordinal);

/* For calls that need the server: the link's error, or CUDA_ERROR_INVALID_DEVICE. */
CUresult device_enter(CUdevice ordinal, struct device **ret_device);

/* The facts that the server sent; they never change. */
const struct device_facts *device_facts(const struct device *device);

/* The GPU's memory, or the part of it that this process may use. */
uint64_t device_total_memory(const struct device *device);

/* How this GPU can access the other's memory. */
const struct peer_facts *device_peer_facts(const struct device *device, const struct device *other);
bool device_reaches(const struct device *device, const struct device *other);

/* The other GPU by the server's number: this process may not see it. */
bool device_reaches_index(const struct device *device, uint32_t other);

/* The result of the query, as the driver returned it to the server. */
CUresult device_attribute(const struct device *device, unsigned attribute, int *ret_value);

/* The session's first use of the GPU. The server creates its context if there is none. */
CUresult device_open(struct device *device);

#endif
