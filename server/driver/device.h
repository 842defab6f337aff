/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_H
#define DEVICE_H

/*
 * The machine's GPUs: their facts, read once at the start, and their one real
 * context each, made when the first session uses the GPU and kept.
 *
 * devices_init() comes before every other thread; after it only `context'
 * and what is made with it change, under the device's lock.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "driver.h"
#include "layout.h"
#include "shm.h"
#include "limit.h"
#include "channel_budget.h"
#include "stream_pool.h"

#define DEVICE_LIMITS 16 /* CUlimit values a client is told */

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
	_Atomic uint64_t unused;     /* bytes of arenas that are mapped, and nobody uses them */
	_Atomic uint64_t going;      /* of these, of sessions that have ended */
	pthread_mutex_t giving_back; /* held while the driver gets any of them, and they count */
	CUdeviceptr scratch;         /* two words that nobody reads (blocked_streams.c); 0: none */
	uint64_t limits[DEVICE_LIMITS]; /* at first; ~0 where the driver refuses */
	uint64_t raised[DEVICE_LIMITS]; /* since then (limit.c); 0: not */
	struct limit_asks *asks;        /* of sessions (limit.c) */
	uint64_t set[LIMITS_RAISED]; /* what the driver was last told; it may have rounded that */
	uint64_t heap_first;         /* as the server has raised it for all; 0: it has not */
	uint64_t stack_refused;      /* the driver had no room for it, at that time; 0 */
	uint64_t stack_refused_ms;
	CUresult stack_refusal;
	bool wants_lower; /* no session asks for all that was raised */
};

/* What a room above this one does for the GPUs. */
struct device_room {
	/* As the GPU's context is made and is current, while nobody has work there. */
	CUresult (*open)(const struct device *device);

	/* Before the contexts go. No other thread is there. */
	void (*close)(void);
};

/* NULL after the last. (server/rooms.c) */
extern const struct device_room *const device_rooms[];

/* Calls cuInit() and reads every fact. Its result is that of cuInit(), which clients are told. */
CUresult devices_init(void);

/* Releases the contexts that were made. Nobody may use them any more. */
void devices_fini(void);

uint32_t devices_count(void);

/* NULL for an ordinal that is not there. */
struct device *device_get(uint32_t ordinal);

/* Whether work of `device' may touch memory of `other' where it is mapped for it. */
bool device_reaches(const struct device *device, const struct device *other);

/* Makes the context if there is none yet (130 ms), and makes it current on this thread. */
CUresult device_enter(struct device *device);

/*
 * Free bytes, with those that arenas of any session keep and nobody uses: who lacks
 * memory presses for them (memory_make_room). The GPU's context is current.
 */
CUresult device_memory_info(struct device *device, uint64_t *ret_free, uint64_t *ret_total);

/* What chunks of its memory are: exportable where the machine can do that. */
CUmemAllocationProp device_memory(const struct device *device);

/* "GPU-01234567-89ab-…" */
#define DEVICE_UUID_TEXT 48
void device_uuid_text(const struct device *device, char text[DEVICE_UUID_TEXT]);

/* Fills a client's page with what devices_init() found. */
void devices_fill_page(struct page __shm *page);

#endif
