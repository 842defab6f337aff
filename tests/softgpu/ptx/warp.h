/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_WARP_H
#define PTX_WARP_H

/*
 * A running kernel: the run, its resident blocks, their warps. A run belongs to the
 * thread that called ptx_kernel_run().
 *
 * The lanes of a warp that are at the same instruction run together. Lanes at lower
 * addresses run first, so that lanes that have diverged converge where their paths
 * do.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base.h"
#include "code.h"
#include "tests/softgpu/ptx/parse/type.h"

#define PTX_RANGES 4u
#define PTX_BARRIERS 16u
#define PTX_WORKSPACE_WORDS 2u
#define PTX_SHARED_RESERVED 1024u

/* A mapped range of device memory; at least 16 bytes. */
struct ptx_range {
	uint64_t start;
	uint64_t size;
};

struct ptx_run {
	const struct ptx_launch *launch;
	const struct ptx_kernel *kernel;
	const uint8_t *params; /* a copy, aligned for any type */
	struct ptx_fault fault;
	struct ptx_range ranges[PTX_RANGES]; /* the first range is the last one used */
	uint32_t n_warps;                    /* of a block */
	uint32_t n_threads;
	uint32_t shared_size;
	uint32_t shared_dynamic;  /* offset of the dynamic part */
	uint32_t shared_reserved; /* offset of the reserved part, if the kernel may use it */
	uint32_t workspace[PTX_WORKSPACE_WORDS]; /* of a whole grid; the first is its size */
	uint32_t cluster[3];
	uint32_t n_cluster_blocks;
	bool has_clusters; /* the launch has clusters */
	uint64_t n_clusters;
};

struct ptx_barrier {
	uint32_t expected; /* threads; 0: all live threads */
	uint32_t n_votes;  /* lanes that voted for true */
	uint32_t n_votes_cast;
};

struct ptx_block {
	struct ptx_run *run;
	struct ptx_cluster *cluster;
	uint32_t rank; /* in its cluster */
	uint64_t index;
	uint32_t ctaid[3];
	uint32_t cluster_ctaid[3];
	uint8_t *shared;
	struct ptx_barrier barriers[PTX_BARRIERS];
	uint32_t waited_for; /* the barriers at which some lane waits */
	struct ptx_warp *warps;
};

/* Blocks that run together and access each other's shared memory; usually one block. */
struct ptx_cluster {
	struct ptx_cluster *next; /* among the resident ones */
	bool is_awaited;          /* some lane waits at its barrier */
	struct ptx_block blocks[];
};

struct ptx_warp {
	/* the lanes that run now */
	uint32_t mask;
	int32_t budget; /* backward branches until other lanes get their turn */
	const struct ptx_row *constants;
	struct ptx_run *run;
	struct ptx_block *block;
	uint32_t frame;      /* the first row of their frame */
	uint32_t local_base; /* the first byte of their frame in local memory */
	/* all lanes */
	struct ptx_row *rows;
	uint32_t n_rows;
	uint8_t *local; /* `local_size' bytes for each lane */
	uint32_t local_size;
	uint32_t index;   /* of the warp in its block */
	uint32_t live;    /* has not exited */
	uint32_t ready;   /* alive, and waits for nothing */
	uint32_t yielded; /* had its turn */
	uint32_t meeting; /* waits for other lanes of the warp */
	uint32_t stopped; /* waits at a barrier of the block */
	uint32_t arrived[PTX_BARRIERS];
	uint32_t cluster_arrived; /* at the cluster's barrier, in its present phase */
	uint32_t cluster_waiting; /* for the end of that phase */
	uint32_t carry;
	const struct ptx_insn *pc[PTX_LANES];
	uint32_t frames[PTX_LANES];
	uint32_t local_bases[PTX_LANES];
	uint32_t meeting_masks[PTX_LANES];
	uint8_t barrier_ids[PTX_LANES];
	uint32_t tid[3][PTX_LANES];
};

static inline const struct ptx_row *ptx_source(
	const struct ptx_warp *warp, const struct ptx_row *r, int32_t operand)
{
	return operand >= 0 ? &r[operand] : &warp->constants[~operand];
}

/* Sets where `lanes' continue. */
static inline void ptx_warp_set_pc(struct ptx_warp *warp, uint32_t lanes, const struct ptx_insn *in)
{
	for (; lanes; lanes &= lanes - 1)
		warp->pc[__builtin_ctz(lanes)] = in;
}

/* The frame of a lane, which may be waiting. */
static inline struct ptx_row *ptx_warp_frame(const struct ptx_warp *warp, unsigned lane)
{
	return warp->rows + warp->frames[lane];
}

static inline uint8_t *ptx_warp_local(const struct ptx_warp *warp, unsigned lane)
{
	return warp->local + (size_t)lane * warp->local_size;
}

/* The first fault of a run stays. Returns NULL, for an instruction to return. */
const struct ptx_insn *ptx_run_fault(
	struct ptx_run *run, enum ptx_fault_kind kind, uint64_t address, bool is_write);

/*
 * Device memory at `addr' in a range, after the quick check of the first range failed.
 * NULL: the run has a fault.
 */
void *ptx_run_find(struct ptx_run *run, uint64_t addr, uint32_t size, bool is_write);

/* Memory of a lane, in any space, checked like an access of the kernel. */
void *ptx_warp_at(struct ptx_warp *warp, unsigned lane, enum ptx_space space, uint64_t addr,
	uint32_t size, bool is_write);

/* Room for frames up to that many rows, and bytes a lane. False: the run has a fault. */
bool ptx_warp_reserve(struct ptx_warp *warp, uint32_t n_rows, uint32_t local_size);

/* Releases lanes that have all converged. Called after a lane began to wait, or left. */
void ptx_warp_resolve(struct ptx_warp *warp);

/* Runs until every lane waits, has exited or had its turn. */
void ptx_warp_run(struct ptx_warp *warp);

/* Releases the lanes that wait at a barrier which all have reached. */
void ptx_block_release(struct ptx_block *block);

/* The same for the lanes of all blocks that wait at the cluster's barrier. */
void ptx_cluster_release(struct ptx_cluster *cluster);

/* Shared memory of another block of the cluster, by an address that names its rank. */
void *ptx_cluster_at(struct ptx_warp *warp, uint32_t at, uint32_t size, bool is_write);

/* Formats and prints as vprintf does; the lane's arguments are at `args'. */
int ptx_print(struct ptx_warp *warp, unsigned lane, uint64_t format, uint64_t args);

/* Prints the message of a failed assertion. */
void ptx_print_assert(struct ptx_warp *warp, unsigned lane, uint64_t message, uint64_t file,
	uint32_t line, uint64_t function);

/*
 * Runs BODY for each running lane, `l'. Two rows are either the same or do not overlap,
 * so the compiler may process all lanes at a time.
 */
#if defined(__clang__)
#define PTX_INDEPENDENT
#else
#define PTX_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define PTX_LANES_DO(warp, ...)                                                                    \
	do {                                                                                       \
		if ((warp)->mask == PTX_ALL_LANES) {                                               \
			PTX_INDEPENDENT                                                            \
			for (unsigned l = 0; l < PTX_LANES; l++) {                                 \
				__VA_ARGS__                                                        \
			}                                                                          \
		} else {                                                                           \
			for (uint32_t left_ = (warp)->mask; left_; left_ &= left_ - 1) {           \
				unsigned l = (unsigned)__builtin_ctz(left_);                       \
				__VA_ARGS__                                                        \
			}                                                                          \
		}                                                                                  \
	} while (0)

#define PTX_EXEC(name)                                                                             \
	static const struct ptx_insn *name(struct ptx_warp *warp _unused_,                         \
		struct ptx_row *r _unused_, const struct ptx_insn *in)

/* NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none. */
#define PTX_SOURCE(x) const union ptx_reg *x _unused_ = ptx_source(warp, r, in->x)->v
#define PTX_DEST(x) union ptx_reg *x = r[in->x].v
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
