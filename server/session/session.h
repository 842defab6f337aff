/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_H
#define SESSION_H

/*
 * A session is one client process: its three memories, its objects, and the
 * worker thread that serves it. The worker alone touches what is in here, but
 * for the few words that say so. Each room above looks into its own part alone, and
 * makes and ends it (session_room.h). The loop's side of a client is struct client_conn.
 *
 * Locks, in this order: device, image list, shares, waiters, deferred. A worker takes
 * them for moments only; device::giving_back, before that of va_space.c, for as long as
 * the driver takes to get memory back. Of a session's `pending_waits_lock', which is the loop's
 * too, nothing waits for the driver.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "server/util/account.h"
#include "bounds.h"
#include "cuda_api.h"
#include "frame.h"
#include "group.h"
#include "server/util/handle_table.h"
#include "server/util/ranges.h"
#include "ring.h"
#include "serve.h"
#include "server/util/watchdog.h"

struct aliases;
struct pending_waits;
struct host_region;
struct opened;
struct session_device;
struct region;
struct printf_capture;
struct launch_batch;
struct chain_cache;
struct waiters;

/* Of a kernel's name; what is longer is cut: it is for people. */
#define KERNEL_NAME_MAX 256

/* What a session may use of a GPU: the least of all limits, but of memory its group's. */
struct grant {
	uint32_t n_sms;
	int32_t priority;
	uint64_t memory; /* bytes; UINT64_MAX: no limit */
};

struct session {
	/* Set before the worker starts. */
	uint32_t id;
	pid_t pid;
	uid_t uid;
	int connection;          /* not owned */
	struct group *group;     /* a reference; NULL: none */
	uint32_t group_threads;  /* active threads of that group, together */
	uint32_t active_threads; /* that the client asks for, at most: the worker's */
	struct frame_limits limits;
	struct account *account;
	struct ring_control __shm *ring;
	void __shm *staging;
	struct page __shm *page;
	void (*on_news)(void *arg); /* any thread: is_done, is_active or a fault has changed */
	void *on_news_arg;

	/* Shared with the loop. */
	_Atomic uint64_t granted;     /* set by the worker: GPUs whose grants stand, a bit each */
	atomic_bool is_ending;        /* set by the loop: drop what is queued, clean up, go */
	atomic_bool is_active;        /* set by the worker: it has opened a GPU */
	atomic_bool has_last_words;   /* set by the worker: last_kernel_name stands */
	atomic_bool has_work;         /* set by the worker: it may have something on a GPU */
	atomic_bool is_done;          /* set by the worker: it has cleaned up */
	atomic_bool waits_for_others; /* set by the worker: what keeps it is not its own work */
	struct watchdog watchdog;     /* what the worker is at */
	pthread_mutex_t pending_waits_lock; /* see pending_wait.h */

	/* The worker's. */
	pthread_t thread;
	struct ring_receiver receiver;
	struct reply reply;
	struct frame_reader images;
	uint32_t n_late_errors;
	CUresult pending_error;             /* the last late error, until the client has taken it */
	uint32_t n_refusals;                /* images and kernels that the driver would not have */
	uint32_t n_parts;                   /* of its share, that contexts have had */
	bool is_bound_logged;               /* the log knows that the account has met a bound */
	bool is_busy;                       /* counted by the deferred calls */
	bool has_pending_seqnos;            /* some stream's pending_seqno is set */
	bool has_unused;                    /* memory that session_devices_trim() would give back */
	uint64_t memory_asked[DEVICES_MAX]; /* the client's own limits; 0: none */
	unsigned seen_pressure;
	bool is_staging_pinned;
	CUdeviceptr timeline;           /* of page->timeline, for the GPU; 0: not pinned */
	struct session_device *current; /* whose context this thread has */
	struct session_device *devices[DEVICES_MAX];
	struct grant grants[DEVICES_MAX]; /* the loop reads those that were opened */
	struct stream *streams[STREAMS_MAX];
	struct stream *busy; /* those that may have work on a GPU, also after their end */
	uint32_t n_closed;   /* of them, destroyed by the client */
	struct handle_table greens, context_shares, linkers, libraries, kernels, events, graphs,
		allocations, arrays, textures;
	struct graph *graph_list;    /* all, also those that only run on */
	uint32_t n_graph_nodes;      /* in all of them */
	uint32_t n_closing_mappings; /* mappings of regions that wait for work to end */
	uint32_t n_closing;          /* memory of others, closed but for work that has to end */
	uint32_t n_shares;           /* own memory that was given a token */
	uint64_t n_freed; /* counts memory and variables that the client may touch no more */
	struct ranges variables;
	struct host_region *host_regions;
	struct aliases *aliases;
	struct region *regions; /* reserved addresses */
	struct opened *opened;  /* memory of others */
	bool has_unused_host;   /* pinned memory that host_trim() would give back */
	struct waiters *waiters;
	struct pending_waits *pending_waits;
	struct printf_capture *text;      /* what its kernels printed */
	const struct kernel *last_kernel; /* that it has launched; NULL: a graph, or not known */
	char last_kernel_name[KERNEL_NAME_MAX];
	struct launch_batch *batch;       /* launches that wait for the next */
	struct chain_cache *chain_caches; /* of its streams */
	unsigned n_chain_caches;
};

/*
 * Makes a session with its memories. `quota' bounds the host memory of its user (NULL: the server
 * has one user). `on_full' is called when its account meets a bound, with the session
 * (account_owner). `ret_fds' are ring, staging and page, for the client; the caller owns them.
 * 0 or -errno.
 */
int session_new(uint32_t id, struct quota *quota,
	bool (*on_full)(void *session, uint64_t amount, unsigned round),
	struct session **ret_session, int ret_fds[FRAME_WELCOME_FDS]);

/* The worker has ended, or never ran. */
void session_free(struct session *session);

/* Any thread: every call of the client returns `fault' from now on, if none was set before. */
void session_set_fault(struct session *session, CUresult fault);

/* Loop: the same of a fault whose cause may be known by its PID, else 0. */
void session_notify_fault(struct session *session, CUresult fault, pid_t pid);

/* "{PID: 12, Context ID: 3}" for log lines. */
#define SESSION_NAME "{PID: %d, Context ID: %u}"
#define SESSION_NAME_ARGS(session) (int)(session)->pid, (session)->id

/* Worker: frees the tables of its objects, which have gone. */
void session_forget_objects(struct session *session);

/* Worker: drops the client, which has sent nonsense. */
void session_drop(struct session *session);

#endif
