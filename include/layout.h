/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAYOUT_H
#define LAYOUT_H

/*
 * The layout of the three shared memories of a session, and of the address space
 * of a client's memory. The server creates and seals them all. "theirs": the
 * client can write it.
 *
 *   ring     theirs  control words, then RING_SIZE bytes of messages
 *   staging  theirs  bytes of copies; the server copies but never interprets them
 *   page     ours    what the server and the GPU write: head, replies,
 *                    timelines, errors, device facts; the client reads
 */

#include <stdint.h>

#include "base.h"
#include "bounds.h"

/* Messages. A power of two; holds a burst of launches. */
#define RING_SIZE (1u << 20)
/* One message: kernel parameters of 32 KiB, names, options. */
#define MESSAGE_MAX (64u << 10)
#define MESSAGE_ALIGN 8u

/* Threads of a client that may wait for a reply at the same time; further threads take turns. */
#define REPLY_SLOTS 64u
/* A reply with its head. */
#define REPLY_MAX (16u << 10)

/* Streams of a session, the NULL streams of the devices first. Frameworks create hundreds. */
#define STREAMS_MAX 4096u
/* Launches of a background client whose end the server watches. */
#define BACKGROUND_QUEUED_MAX 16u

/* Host nodes in executable graphs of a session: each has a word in the ring and in the page. */
#define GRAPH_CALLS 4096u

/*
 * The staging memory has a small part, and a large one behind it, so large that several threads
 * fill while the GPU drains. Each is pinned at its first use. Most programs copy a few bytes at
 * first, and to pin all takes milliseconds.
 */
#define STAGING_SMALL (1u << 20)
#define STAGING_LARGE (16u << 20)
#define STAGING_SIZE (STAGING_SMALL + STAGING_LARGE)

/* CU_DEVICE_ATTRIBUTE_MAX of CUDA 13.0, and space for attributes of later drivers. */
#define DEVICE_ATTRIBUTES 192u

/*
 * The head of a message. A message is its head, its fixed fields and its tails,
 * each tail padded with zeros to MESSAGE_ALIGN; `size' is all of it.
 */
struct message_head {
	uint32_t size; /* bytes of the whole message */
	uint16_t op;
	uint16_t reply; /* slot + 1 that waits for the result; 0: no reply */
	uint32_t seq;   /* counts a client's messages; the reply repeats it */
	uint32_t reserved;
};

/* The head of a reply slot; the reply's fields follow. */
struct reply_head {
	uint32_t seq;    /* of the message replied to; written last; futex word */
	uint32_t result; /* CUresult */
	uint32_t size;   /* bytes after this head */
	uint32_t reserved;
};

/* The client writes, the server reads. */
struct ring_control {
	uint32_t tail;         /* free-running count of bytes put in; futex word of the worker */
	uint32_t errors_taken; /* the count of page.error that the program has got */
	uint8_t pad0[56];
	uint32_t waiting[REPLY_SLOTS]; /* 1: a thread sleeps on that slot */
	uint8_t pad1[4096 - 64 - 4 * REPLY_SLOTS];
	/* Whole pages, pinned when the GPU first has to wait for one of these words. */
	uint64_t done[STREAMS_MAX]; /* the last host function of each stream that has returned */
	uint64_t graph_done[GRAPH_CALLS]; /* not 0: the function of the host node has returned; the
					     GPU writes 0 */
};

#define RING_DATA_OFFSET 69632u
#define RING_BYTES (RING_DATA_OFFSET + RING_SIZE)

struct device_facts {
	char name[256];
	uint8_t uuid[16];    /* cuDeviceGetUuid */
	uint8_t uuid_v2[16]; /* cuDeviceGetUuid_v2 */
	uint64_t total_memory;
	char pci_bus_id[32];
	int32_t attribute[DEVICE_ATTRIBUTES];
	uint16_t attribute_result[DEVICE_ATTRIBUTES]; /* CUresult of the query */
	uint32_t sm_group; /* SMs of the smallest group that the driver divides into; 0: it divides
			      into none */
	uint32_t n_sm_groups; /* groups of that size; the remaining SMs are in none */
};

/* The part of struct page that the GPU writes: from the timeline on. */
#define PAGE_WORDS_BYTES                                                                           \
	(sizeof(uint64_t[3 * STREAMS_MAX + GRAPH_CALLS + BACKGROUND_QUEUED_MAX + 8]))

/* How one GPU can access the memory of another. */
struct peer_facts {
	int32_t can_access;   /* cuDeviceCanAccessPeer */
	int32_t attribute[7]; /* cuDeviceGetP2PAttribute, by CUdevice_P2PAttribute */
};

#define PEER_ATTRIBUTES ARRAY_SIZE(((struct peer_facts *)0)->attribute)

/*
 * A value of `fault' in struct page, and no CUresult: the session moves to another server, and
 * calls wait. The page of that server comes over the connection (FRAME_PAGE); or the value ends.
 */
#define FAULT_MOVING UINT32_MAX

/* A value of fault_pid in struct page. */
#define FAULT_PID_UNKNOWN UINT32_MAX

/* Which limit has refused memory to the client. */
enum memory_refusal {
	REFUSAL_NONE,
	REFUSAL_BY_CLIENT, /* the client's own limit of a GPU's memory */
	REFUSAL_BY_GROUP,  /* the limit of the client's group */
	REFUSAL_BY_CGROUP, /* dmem.max of a cgroup of the client */
	REFUSAL_BY_HOST,   /* the bound of host memory that the server holds for the client */
	REFUSALS,
};

/* What is kept of the text that a client's kernels printed before a fault: a few messages. */
#define LAST_TEXT_MAX 4096

/* The server writes, the client reads. Words that change have a cache line each. */
struct page {
	uint32_t head; /* free-running count of bytes taken out of the ring */
	uint8_t pad0[60];
	uint32_t worker_asleep; /* 1: wake ring_control.tail after putting a message in */
	uint8_t pad1[60];
	uint64_t error; /* count << 32 | CUresult of the last late error of this client */
	/* The last limit that has refused memory, for the client's log. */
	uint64_t refusal_limit; /* bytes */
	uint32_t refusal;       /* enum memory_refusal */
	uint8_t pad2[64 - 20];
	uint32_t fault;     /* CUresult of every call from now on; 0: none */
	uint32_t fault_pid; /* PID of the client whose kernel it was, or FAULT_PID_UNKNOWN; 0: not
			       known yet */
	uint8_t pad3[56];
	/* Fixed before the client sees the page. */
	uint32_t init_result;    /* CUresult of the server's cuInit */
	uint32_t driver_version; /* cuDriverGetVersion */
	uint32_t n_devices;
	uint32_t page_bytes;     /* sizeof this struct, a check that the builds match */
	uint32_t active_threads; /* the operator's limit for this client (frame.h) */
	uint8_t pad4[64 - 20];
	uint32_t n_asked;   /* counts host functions that are due, approximately; futex word */
	uint32_t n_text;    /* counts bytes that kernels printed, read or not */
	uint32_t n_at_work; /* clients of this server with work on a GPU, as of the last message */
	uint32_t is_suspended; /* 1: messages wait for as long as the operator wants */
	uint8_t pad5[4096 - 6 * 64 + 48];
	/* Written by the GPU: the progress of each stream. The low half is a futex word. */
	uint64_t timeline[STREAMS_MAX];
	uint64_t asked[STREAMS_MAX];  /* written by the GPU: the host function to run */
	uint64_t passed[STREAMS_MAX]; /* the ticket that the stream waited for last; only the server
					 uses it */
	uint64_t graph_asked[GRAPH_CALLS];          /* 1: the host node's function has to run */
	uint64_t background[BACKGROUND_QUEUED_MAX]; /* which launches have ended; only the server
						       uses it: background.h */
	uint64_t evade[8]; /* target of copies, never read: blocked_streams.h */
	union {
		struct reply_head head;
		uint8_t bytes[REPLY_MAX];
	} reply[REPLY_SLOTS];
	struct device_facts device[DEVICES_MAX];
	struct peer_facts peer[DEVICES_MAX]
			      [DEVICES_MAX]; /* the first GPU with the second's memory */
	/* Printed before a fault, when no message is answered any more; written before `fault'. */
	uint32_t n_last_text; /* bytes */
	uint32_t pad6;
	uint8_t last_text[LAST_TEXT_MAX];
};

_Static_assert(offsetof(struct ring_control, done) == 4096, "pinned by itself");
_Static_assert(offsetof(struct page, timeline) == 4096, "pinned by itself");
_Static_assert(offsetof(struct page, reply) == 4096 + PAGE_WORDS_BYTES, "in one");
_Static_assert(sizeof(struct ring_control) == RING_DATA_OFFSET, "the ring comes next");

#define PAGE_BYTES ALIGN_UP((uint32_t)sizeof(struct page), 65536u)

/*
 * The address space. Device space is divided into VA windows; window n starts at
 * DEVICE_SPACE + n * VA_WINDOW, so one look-up finds the owner of a pointer.
 * ThreadSanitizer keeps its shadow at these addresses: its builds use others.
 */
#if defined(__SANITIZE_THREAD__)
#define MPS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MPS_TSAN 1
#endif
#endif

#ifdef MPS_TSAN
#define DEVICE_SPACE 0x7e8000000000ull
#define DEVICE_SPACE_END 0x7ec000000000ull
#define HOST_SPACE 0x7ec000000000ull
#define HOST_SPACE_CHECKED HOST_SPACE
#define HOST_SPACE_END 0x7ee000000000ull
#else
#define DEVICE_SPACE 0x200000000000ull
#define DEVICE_SPACE_END 0x400000000000ull
#define HOST_SPACE 0x400000000000ull
#define HOST_SPACE_CHECKED 0x550000000000ull
#define HOST_SPACE_END 0x555000000000ull
#endif

/*
 * From HOST_SPACE_CHECKED on, the host space lies where ThreadSanitizer, MemorySanitizer and
 * AddressSanitizer (of gcc 12 to 15 and clang 14 to 20) let a program map memory, and below the
 * addresses of position-independent programs. Programs without a sanitizer get these addresses
 * last.
 */

/* Pinned memory is mapped in chunks of multiples of this. Smaller allocations share one chunk. */
#define HOST_PAGE (2ull << 20)

/*
 * Host memory is pinned in pieces that end at multiples of this, because pinning
 * blocks the calls of all clients: 1.3 ms. No copy may cross such an end.
 */
#define HOST_PIECE (32ull << 20)

#define VA_WINDOW_SHIFT 32
#define VA_WINDOW (1ull << VA_WINDOW_SHIFT)

#endif
