/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_H
#define DRIVER_H

/*
 * The driver half of the software GPU: the process's one `struct driver', and
 * the beginning of every entry point.
 *
 * One lock guards everything in here and in stream.h, module.h, memory.h and
 * graph.h. ENTER() takes it, and the end of the entry point releases it. A call
 * that waits for the GPU waits on `driver.progress', which releases the lock
 * meanwhile. Streams' threads run work without it. The only other lock is the
 * one inside range.c, which is taken last.
 */

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>

#include "base.h"
#include "tests/softgpu/softgpu.h"

#define DEVICES_MAX 16
#define DRIVER_VERSION 13000
#define GRANULARITY ((size_t)2 << 20)
#define SMS_DEFAULT 132 /* an H200 */

struct context;
struct stream;

/* Every object with a handle begins with this; a handle is its address. */
enum object_kind {
	OBJECT_NONE,
	OBJECT_CONTEXT,
	OBJECT_STREAM,
	OBJECT_EVENT,
	OBJECT_LIBRARY,
	OBJECT_LINKER,
	OBJECT_MODULE,
	OBJECT_KERNEL,
	OBJECT_FUNCTION,
	OBJECT_ALLOCATION,
	OBJECT_POOL,
	OBJECT_GRAPH,
	OBJECT_NODE,
	OBJECT_EXEC,
	OBJECT_ARRAY,
	OBJECT_MIPMAP,
	OBJECT_USER,
	OBJECT_DESC,
	OBJECT_GREEN,
};

struct object {
	enum object_kind kind;
	struct object *next; /* in its bucket */
};

#define STAT_ENUM(upper, lower) STAT_##upper,
enum stat_kind {
	SOFTGPU_STATS_LIST(STAT_ENUM) STATS_N
};

/* Resources of a GPU: channels.h. */
struct channels {
	size_t n_channels, n_nodes; /* taken */
	size_t n_channels_made, n_nodes_made;
};

struct device {
	int ordinal;  /* of the machine, before CUDA_VISIBLE_DEVICES */
	size_t total; /* bytes */
	size_t used;
	struct context *primary; /* made at cuInit, active only while retained */
	int lock_fd;             /* held while a context exists here: mode.c */
	uint32_t n_contexts;
	struct channels channels;
};

struct driver {
	pthread_mutex_t lock;
	pthread_cond_t progress; /* signalled when a stream advances or faults */
	bool is_initialized;
	bool is_held;   /* one call waits for everything; other calls wait for that call */
	CUresult fault; /* sticky: the result of every later call */
	uint32_t launch_us, copy_us, unpin_us;
	bool loops_alone, takes_turns;
	uint32_t n_sms; /* of each device */
	int n_devices;
	struct device devices[DEVICES_MAX];
	struct context *contexts;
	uint64_t last_id; /* of contexts, streams and buffers */
};

extern struct driver driver;

/* What a call needs besides its arguments; each level includes the previous ones. */
enum call_needs {
	CALL_ANYTIME, /* nothing, not even cuInit() */
	CALL_INIT,    /* cuInit(), not in a forked child, not from a host function */
	CALL_ALIVE,   /* that there was no fault */
	CALL_OBJECT,  /* that no ended context is current: an argument names the context */
	CALL_CONTEXT, /* an existing context, current on this thread */
};

/*
 * Counts the call for the fail switch and checks that the call is allowed. Takes
 * the lock, on failure too.
 */
CUresult call_enter(const char *name, enum call_needs needs);
void call_leave(const CUresult *entered);

/* The whole of a function that is not served: CUDA_ERROR_NOT_SUPPORTED after cuInit(). */
CUresult call_absent(const char *name);

/*
 * The first line of every entry point. As an exception, this macro contains a
 * return: two hundred copies of these three lines would hide the rest.
 */
#define ENTER(needs)                                                                               \
	_cleanup_(call_leave) CUresult entered_ = call_enter(__func__, needs);                     \
	if (entered_ != CUDA_SUCCESS)                                                              \
	return entered_

/*
 * Two entry points with one body: the plain one, and the one that programs with
 * per-thread default streams call. `params' has a CUstream named stream. Only a
 * default stream needs a current context.
 */
#define ENTER_STREAM(name, params, body)                                                           \
	CUresult name params                                                                       \
	{                                                                                          \
		ENTER(CALL_ALIVE);                                                                 \
		return body;                                                                       \
	}                                                                                          \
	CUresult name##_ptsz params                                                                \
	{                                                                                          \
		ENTER(CALL_ALIVE);                                                                 \
		if (!stream)                                                                       \
			stream = CU_STREAM_PER_THREAD;                                             \
		return body;                                                                       \
	}

/* The same for calls without a stream argument: `stream' is the default stream. */
#define ENTER_DEFAULT_STREAM(name, params, body)                                                   \
	CUresult name params                                                                       \
	{                                                                                          \
		const CUstream stream = CU_STREAM_LEGACY;                                          \
		ENTER(CALL_CONTEXT);                                                               \
		return body;                                                                       \
	}                                                                                          \
	CUresult name##_ptds params                                                                \
	{                                                                                          \
		const CUstream stream = CU_STREAM_PER_THREAD;                                      \
		ENTER(CALL_CONTEXT);                                                               \
		return body;                                                                       \
	}

/* init.c */

/* Marks the calling thread as inside a host function: no driver calls until unmarked. */
void call_forbid(bool is_forbidden);

/* graph/graph_extra.c: destroys the objects that the call has ended. Without the lock. */
void user_objects_destroy(void);

/* device.c: reads the environment into driver.devices. */
CUresult devices_init(void);
struct device *device_get(CUdevice dev); /* NULL for a bad ordinal */
void device_uuid(const struct device *device, CUuuid *ret_uuid);
/* Charges device memory; CUDA_ERROR_OUT_OF_MEMORY if there is too little. */
CUresult device_charge(struct device *device, size_t size);
void device_refund(struct device *device, size_t size);

/* mode.c */
CUcomputemode device_compute_mode(const struct device *device);
/* Takes and releases this process's claim on a device, one for each context. */
CUresult device_claim(struct device *device);

/* Opens SOFTGPU_DIR/softgpu-ORDINAL.NAME for flock(), and creates it. A descriptor, or -errno. */
int device_lock_open(const struct device *device, const char *name);
void device_unclaim(struct device *device);

/* object.c */
void object_add(struct object *object, enum object_kind kind);
void object_remove(struct object *object);
void *object_find(enum object_kind kind, const void *handle); /* NULL: no such object */

/* fault.c */
void fault_init(void);
CUresult fault_next(const char *name);  /* the result of the fail switch for this call */
bool result_is_sticky(CUresult result); /* a fault of the GPU, not an error of a call */
void stat_add(enum stat_kind stat, int64_t delta);
void stats_open(void);

/* The value of a numeric environment variable, or `fallback' if unset or not a number. */
uint64_t env_number(const char *name, uint64_t fallback);

#endif
