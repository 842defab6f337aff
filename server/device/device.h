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

#include <stdatomic.h>

#include "layout.h"
#include "lock.h"
#include "shm.h"
#include "server/driver/driver.h"

#define DEVICE_LIMITS 16 /* CUlimit values that clients see */

struct channel_budget;
struct closed_gpu;
struct probation_gpu;
struct quiet;
struct raised_limits;
struct stream_pool;

struct device {
	uint32_t ordinal;
	CUdevice handle;
	struct device_facts facts;
	struct lock lock;
	CUcontext context; /* NULL: not made yet */
	uint64_t granularity;
	int priority_least, priority_greatest;
	/* Of the files of higher rooms: see device_part. Not owned. */
	struct channel_budget *channels;
	struct closed_gpu *closed;
	struct probation_gpu *probation;
	struct quiet *quiet;
	struct raised_limits *raised;
	struct stream_pool *stream_pool;
	atomic_uint n_sessions;   /* that have opened it */
	_Atomic uint64_t unused;  /* bytes of arenas that are mapped and unused */
	_Atomic uint64_t closing; /* of these, of sessions that have ended */
	struct lock giving_back;  /* held while memory goes back to the driver */
	CUdeviceptr scratch; /* two values that are never read (blocked_streams.c, graph_switch.h);
				0: none */
	uint64_t limits[DEVICE_LIMITS]; /* at first; ~0 if the driver refuses */
};

/* What a file of a higher room keeps and does for GPUs. A NULL function is not called. */
struct device_part {
	/*
	 * When the GPU's facts have been read: stores the pointer to the part's state, which is
	 * new. devices_init() fails with an error that another attempt may change.
	 */
	CUresult (*begin)(struct device *device);

	/*
	 * When the GPU's context has been made and is current, before any work. In the order of the
	 * list: the context ends if one of them fails.
	 */
	CUresult (*open)(struct device *device);

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

/* Its entries, each defined by the file of its name. */
extern const struct device_part channel_budget_part, closed_gpu_part, copy_kernel_part,
	cu_limit_part, greens_device_part, probation_device_part, quiet_part, sm_share_part,
	stream_pool_part;

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
 * memory reclaims them (space_make). The GPU's context is current.
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
