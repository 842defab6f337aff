/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_H
#define DEVICE_H

/*
 * The machine's GPUs: their facts, read once at the start, and one real context for each,
 * which is made when the first session uses the GPU and then kept.
 *
 * devices_init() runs before every other thread. After it only `context' and the members
 * made with it change, under the device's lock.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "channel_budget.h"
#include "closed_gpu.h"
#include "cu_limit.h"
#include "driver.h"
#include "layout.h"
#include "quiet.h"
#include "shm.h"
#include "stream_pool.h"

#define DEVICE_LIMITS 16 /* CUlimit values that clients see */

struct device {
	uint32_t ordinal;
	CUdevice handle;
	struct device_facts facts;
	pthread_mutex_t lock;
	CUcontext context; /* NULL: not made yet */
	uint64_t granularity;
	int priority_least, priority_greatest;
	struct stream_pool stream_pool;
	struct channel_budget channels;
	struct closed_gpu closed;
	struct quiet quiet;
	atomic_uint n_sessions;      /* that have opened it */
	_Atomic uint64_t unused;     /* bytes of arenas that are mapped and unused */
	_Atomic uint64_t closing;    /* of these, of sessions that have ended */
	pthread_mutex_t giving_back; /* held while memory goes back to the driver */
	CUdeviceptr scratch; /* two values that are never read (blocked_streams.c); 0: none */
	uint64_t limits[DEVICE_LIMITS]; /* at first; ~0 if the driver refuses */
	uint64_t raised[DEVICE_LIMITS]; /* since then (cu_limit.c); 0: not raised */
	struct cu_limit_asks *asks;     /* requests of sessions (cu_limit.c) */
	uint64_t set[LIMITS_RAISED];    /* last set in the driver, which may have rounded it */
	uint64_t heap_first;            /* raised by the server for all clients; 0: not raised */
	uint64_t stack_refused;         /* size that the driver refused at that time; 0: none */
	uint64_t stack_refused_ms;
	CUresult stack_refusal;
	bool wants_lower;            /* no session asks for a limit that was raised */
	atomic_uint n_stack_lowered; /* how often (cu_limit.h) */
	_Atomic bool is_stack_large; /* it may be larger than at first */
	_Atomic bool is_stack_kept;  /* only graphs still need its size (cu_limit.h) */
};

/* What a file of a higher room does for GPUs. */
struct device_part {
	/* When the GPU's context has been made and is current, before any work. */
	CUresult (*open)(const struct device *device);

	/*
	 * Adds a kernel node behind `after', or the first for NULL, to a graph that is never
	 * launched (channel_budget.c). The GPU's context is current. NULL: the part has no kernel.
	 */
	CUresult (*add_node)(CUgraph graph, CUgraphNode after, CUgraphNode *ret_node);

	/* Before the contexts end. No other thread runs. */
	void (*close)(void);
};

/* Ends with NULL. Defined in server/rooms.c. */
extern const struct device_part *const device_parts[];

/* Calls cuInit() and reads every fact. Returns the result of cuInit(), which clients see. */
CUresult devices_init(void);

/* Releases the contexts that were made. No thread may use them any more. */
void devices_fini(void);

uint32_t devices_count(void);

/* NULL: there is no such ordinal. */
struct device *device_get(uint32_t ordinal);

/* Whether work of `device' may touch memory of `other' that is mapped for it. */
bool device_reaches(const struct device *device, const struct device *other);

/* Makes the context if there is none yet (130 ms), and makes it current on this thread. */
CUresult device_enter(struct device *device);

/*
 * Free bytes, including those that arenas of any session keep unused: a session that lacks
 * memory reclaims them (memory_make_space). The GPU's context is current.
 */
CUresult device_memory_info(struct device *device, uint64_t *ret_free, uint64_t *ret_total);

/* The properties of memory chunks: exportable if the machine supports that. */
CUmemAllocationProp device_memory(const struct device *device);

/* "GPU-01234567-89ab-…" */
#define DEVICE_UUID_TEXT 48
void device_uuid_text(const struct device *device, char text[DEVICE_UUID_TEXT]);

/* Fills a client's page with the results of devices_init(). */
void devices_fill_page(struct page __shm *page);

#endif
