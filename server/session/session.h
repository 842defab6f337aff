/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_H
#define SESSION_H

/*
 * A session is one client process: its three memories, its objects, and the worker thread
 * that serves it. Only the worker accesses the members, except for the few that say
 * otherwise. Each room above accesses only its own part, which it makes and ends
 * (session_part.h). The loop's side of a client is struct client_conn.
 *
 * Locks, in this order: device, image list, shares, waiters, deferred. A worker holds them
 * briefly. Exception: device::giving_back, before the lock of va_space.c, while memory goes
 * back to the driver. No thread waits for the driver under a session's `pending_waits_lock',
 * which the loop takes, too.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "bounds.h"
#include "counters.h"
#include "cuda_api.h"
#include "dispatch.h"
#include "frame.h"
#include "group.h"
#include "last_launch.h"
#include "lock.h"
#include "ring.h"
#include "yielder.h"
#include "server/util/account.h"
#include "server/util/handle_table.h"
#include "server/util/pack.h"
#include "server/util/ranges.h"
#include "server/util/watchdog.h"
#include "server/record/record.h"

struct aliases;
struct record_script;
struct record_step;
struct device_quota;
struct event_times;
struct eviction;
struct pending_waits;
struct placement;
struct host_region;
struct opened;
struct session_device;
struct region;
struct printf_capture;
struct launch_batch;
struct background;
struct classed;
struct foreground;
struct launching;
struct chain_cache;
struct trace;
struct tracer;
struct waiters;

/*
 * What a session may use of a GPU: the lowest of all limits, except that its group's memory
 * limit is separate.
 */
struct grant {
	uint32_t n_sms;
	int32_t priority;
	uint64_t memory; /* bytes; UINT64_MAX: no limit */
};

/* Bits of session::observers. */
#define OBSERVER_TRACER 1u
#define OBSERVER_CLASSES 2u /* its class is not known, or sessions of the other one exist */

/* How far a session is that moves to another server (server/departure.h). */
enum departure {
	DEPARTURE_NONE,
	DEPARTURE_AT_WORK,
	DEPARTURE_STAYS,  /* session::stays is the reason */
	DEPARTURE_PACKED, /* session::pack has everything */
};

struct session {
	/* Set before the worker starts. */
	uint32_t id;
	pid_t pid;
	uid_t uid;
	uid_t account_uid;   /* of the account that pays: a user may have many UIDs */
	int connection;      /* not owned */
	const char *command; /* not owned: argv[0]; may be NULL */
	uint32_t program;    /* from its HELLO, as the next */
	bool continues;      /* a GPU fault costs it only its work, if it can move (fault.h) */
	struct group *group; /* a reference; NULL: none */
	struct group *cgroups[CGROUP_LEVELS_MAX]; /* the same, then NULL; the nearest one first */
	uint32_t group_threads;                   /* active threads of that group, together */
	uint32_t active_threads; /* the most that the client requests: the worker's */
	struct frame_limits limits;
	struct account *account;
	struct ring_control __shm *ring;
	void __shm *staging;
	struct page __shm *page;
	void (*on_news)(void *arg); /* any thread: is_done, has_to_end and the like are new */
	void *on_news_arg;

	/* Shared with the loop. */
	_Atomic uint64_t granted;  /* set by the worker: GPUs with a valid grant, one bit each */
	atomic_bool is_ending;     /* set by the loop: drop what is queued, clean up, end */
	atomic_bool is_active;     /* set by the worker: it has opened a GPU */
	atomic_bool has_to_end;    /* set by another worker, with on_news (borrowers.h) */
	atomic_bool has_work;      /* set by the worker: it may have something on a GPU */
	atomic_bool is_done;       /* set by the worker: it has cleaned up */
	atomic_bool had_work;      /* set when a GPU fault was noted: it had work on a GPU */
	atomic_bool has_dropped;   /* set by the worker: its client is told of that (dropped.h) */
	atomic_uint memory_wanted; /* bits of eviction.h: what its worker has to look at */
	atomic_bool waits_for_others; /* set by the worker: it waits for work of other sessions */
	atomic_bool is_held;          /* set by the loop: one of the next two is set */
	atomic_bool is_suspended;     /* set by the loop: serve no message (server/suspension.h) */
	atomic_bool is_moving;        /* the same (server/departure.h); set by a fault, too */
	_Atomic uint32_t suspension;  /* set by the worker: enum suspension, as far as it is */
	_Atomic uint32_t n_unpinned;  /* set by the worker: pieces of memory, so far */
	atomic_bool is_leaving;       /* set by the loop: its pack is on its way; nothing changes */
	_Atomic uint32_t departure;   /* set by the worker: enum departure */
	const char *stays;            /* ... and the loop reads these two afterwards */
	const char
		*_Atomic told_stays; /* set by the worker: as session_stays(), MOVES_TEXT or NULL */
	struct pack pack;
	struct watchdog watchdog;            /* the call that the worker is in */
	_Atomic uint64_t counters[COUNTERS]; /* see server/session/counting.h */
	atomic_uint observers;               /* what has to know of its work: see observed.h */
	_Atomic uint64_t marks[STREAMS_MAX]; /* by stream: see at_work.h */
	_Atomic uint32_t n_marks;            /* streams from here on have never existed */
	struct device_quota *_Atomic quotas[DEVICES_MAX]; /* see device_quotas_unref() */
	struct lock pending_waits_lock;                   /* see pending_wait.h */
	struct last_launch last_launch;                   /* for faults and counters */

	/* The worker's. */
	pthread_t thread;
	struct ring_receiver receiver;
	struct reply reply;
	uint32_t n_late_errors;
	CUresult pending_error;             /* the last one, until the client has taken it */
	uint32_t n_refusals;                /* images and kernels that the driver refused */
	uint32_t n_parts;                   /* contexts with a part of its share, so far */
	bool has_loops;                     /* made a graph with a WHILE node, which the log says */
	bool is_bound_logged[RESOURCES];    /* the log says that the account has met the bound */
	bool has_lost;                      /* a fault has met a call of it, which is half done */
	bool is_dropping;                   /* what its client sends may be dropped (dropped.h): */
	uint32_t dropped_to;                /* up to this position of the ring, all work */
	bool can_do_without;                /* what is charged now: a bound is no error */
	bool is_full_store_logged;          /* the log says that evicted bytes have no space */
	uint64_t n_messages;                /* served so far */
	uint64_t stays_at;                  /* n_messages + 1 when `told_stays' was set */
	uint32_t n_at_work;                 /* as in the page */
	int64_t pause_ns;                   /* between two runs of messages, on average */
	struct yielder yielder;             /* of the worker */
	bool is_at_work;                    /* counted as having work (at_work.h) */
	bool has_pending_seqnos;            /* the GPU will not write the seqno of a stream */
	bool has_unused;                    /* memory that session_devices_trim() would give back */
	uint64_t memory_asked[DEVICES_MAX]; /* the client's own limits; 0: none */
	uint64_t arena_bases[DEVICES_MAX];  /* of its memory in the server before; 0: none */
	unsigned trace_generation;          /* the last change of traces that it has followed */
	struct trace *trace;                /* that it has joined; NULL: none */
	bool is_staging_pinned[2];          /* the small part, the large one */
	CUdeviceptr timeline;               /* of page->timeline, for the GPU; 0: not pinned */
	struct session_device *current;     /* whose context is current on the worker */
	struct session_device *devices[DEVICES_MAX];
	struct grant grants[DEVICES_MAX]; /* the loop reads those of opened GPUs */
	struct stream *streams[STREAMS_MAX];
	struct tracer *tracer; /* NULL: no trace runs */
	struct stream *busy;   /* streams that may have work on a GPU, also destroyed ones */
	uint32_t n_closed;     /* of them, destroyed by the client */
	union {
		struct handle_table tables[10]; /* these, in their order */
		struct {
			struct handle_table greens, context_shares, linkers, libraries, kernels,
				events, graphs, allocations, arrays, textures;
		};
	};
	struct record record;           /* of its objects */
	const struct record_step *step; /* of a replay (recorded.h); NULL: none */
	bool keeps_memory;              /* what ends is made again at the same addresses */
	struct record_script *script;   /* owned: to be replayed (server/replay.h); NULL: none */
	uint64_t replayed_at;           /* `n_messages' at the last test of a replay */
	struct graph *graph_list;       /* all graphs, also destroyed ones that still run */
	uint32_t n_closing_mappings;    /* mappings of regions that wait for work to end */
	uint32_t n_closing;             /* closed memory of others that waits for work to end */
	uint32_t n_shares;              /* own memory for which a token exists */
	uint64_t n_freed;        /* counts memory and variables that the client may no longer use */
	struct ranges variables; /* those that the driver has placed */
	struct placement *ending_placements; /* their memory waits for work to end */
	const char *_Atomic immovable;       /* see library_immovable() */
	uint32_t n_immovable;                /* libraries with a reason for that */
	struct host_region *host_regions;
	struct aliases *aliases;
	struct array_contents *array_contents; /* for arrays that are made again */
	struct region *regions;                /* reserved addresses */
	struct opened *opened;                 /* memory of other sessions */
	bool has_unused_host;                  /* pinned memory that host_trim() would give back */
	struct waiters *waiters;
	struct pending_waits *pending_waits;
	struct event_times *event_times;  /* of events that were made again */
	struct printf_capture *text;      /* what its kernels printed */
	struct eviction *eviction;        /* its memory that leaves GPUs */
	struct classed *classed;          /* its class: foreground or background */
	struct background *background;    /* what it has on a GPU, of a background session */
	struct foreground *foreground;    /* what it feels, of a foreground session */
	struct launching *launching;      /* whether its worker is launching */
	struct probation *probation;      /* whether its program is on probation */
	struct recv_fd *recv_fd;          /* the descriptor of a message */
	struct launch_batch *batch;       /* launches that wait for the next one */
	struct chain_cache *chain_caches; /* of its streams */
	unsigned n_chain_caches;
};

/*
 * Makes a session with its memories. `quotas' are those of its process (NULL: the session has
 * the server's as its next ones). `on_full' is called with the session when its account meets
 * a bound (account_owner). `ret_fds' are ring, staging and page, for the client; the caller
 * owns them. 0 or -errno.
 */
int session_new(uint32_t id, struct resource_quotas *quotas,
	bool (*on_full)(void *session, enum resource resource, uint64_t amount, unsigned round),
	struct session **ret_session, int ret_fds[FRAME_WELCOME_FDS]);

/*
 * The same for a session of another server, whose ring and staging memory are taken from
 * `memories'; the page is new. On success, `memories' has all three. On failure the caller still
 * owns those that it has.
 */
int session_new_moved(uint32_t id, struct resource_quotas *quotas,
	bool (*on_full)(void *session, enum resource resource, uint64_t amount, unsigned round),
	struct session **ret_session, int memories[FRAME_WELCOME_FDS]);

/* The worker has ended, or was never started. */
void session_free(struct session *session);

/*
 * Any thread: every call of the client returns `fault' from now on, unless another fault was
 * set before.
 */
void session_set_fault(struct session *session, CUresult fault);

/* Loop: the same, with the PID of the client that caused the fault; 0: unknown. */
void session_notify_fault(struct session *session, CUresult fault, pid_t pid);

/* Any thread: its group for 0, then its cgroups; less than MEMBERSHIPS_MAX. NULL: none. */
static inline struct group *session_group(const struct session *session, unsigned i)
{
	return i == 0 ? session->group : session->cgroups[i - 1];
}

/* "{PID: 12, Context ID: 3}" for log lines. */
#define SESSION_NAME "{PID: %d, Context ID: %u}"
#define SESSION_NAME_ARGS(session) (int)(session)->pid, (session)->id

/*
 * Worker: makes an object with an ID that the client has chosen: `size' zeroed bytes, and the
 * driver will keep `kept' bytes for it. CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_INVALID_HANDLE: an
 * object has the ID, or no object can.
 */
CUresult session_object_new(
	struct handle_table *table, uint32_t id, uint64_t size, uint64_t kept, void *ret_object);

/* Worker: frees the tables of its objects, which have ended. */
void session_forget_objects(struct session *session);

/* Worker: how far its suspension is; wakes the loop at a change. */
void session_note_suspension(struct session *session, enum suspension state);

/* Worker: closes the connection of a client that has sent malformed data. */
void session_drop(struct session *session);

/*
 * Worker: sends a descriptor with a FRAME_MEMORY of that address and size, which a client takes at
 * once. CUDA_ERROR_MPS_RPC_FAILURE: it has not, and the session has been dropped.
 */
CUresult session_send_memory(struct session *session, uint64_t address, uint64_t size, int fd);

/* Whether they are memory of the session, at that address: no constant that has moved. */
static inline bool memory_check(struct session *session, uint64_t address, uint64_t size)
{
	return address && memory_find(session, address, size) == address;
}

#endif
