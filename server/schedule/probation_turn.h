/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBATION_TURN_H
#define PROBATION_TURN_H

/*
 * Whose turn a GPU is while a session is on probation (probation.h): the rules, as functions of
 * the time and of what a worker has seen. They call nothing.
 *
 * A program on probation takes a turn before its work, and work of other programs is held during
 * the turn. It takes the turn when no other program has work. If others have work for PATIENCE, it
 * holds their new work until what is on the GPU has ended (the drain).
 *
 * Invariant: others are held for at most drain + slice + TAIL at a time, and then not for
 * OPEN_FACTOR times as long as they were held. So they have the GPU for seven eighths of the time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base.h"

/* How long work of others on the GPU delays the drain. */
#define TURN_PATIENCE_NS UINT64_C(20000000)

/* The first drain, and the longest one: each that fails is followed by one of twice the length. */
#define TURN_DRAIN_NS UINT64_C(20000000)
#define TURN_DRAIN_MAX_NS UINT64_C(160000000)

/* How long the program launches after a drain, at least: as long as the drain took. */
#define TURN_SLICE_NS UINT64_C(10000000)

/* How long others are held for work that was launched before. */
#define TURN_TAIL_NS UINT64_C(10000000)

/* Then others are not held, for so many times as long. */
#define TURN_OPEN_FACTOR 7

/* A turn in which the program has no work for this long ends for those that are held. */
#define TURN_PAUSE_NS UINT64_C(500000)

/* After the longest drain has failed, work on probation runs beside other work for this long. */
#define TURN_BESIDE_NS UINT64_C(3000000000)

/* Of one GPU. Zero: no session has a turn. */
struct probation_turn {
	uint64_t owner;         /* the program whose turn it is; 0: none */
	bool is_drained;        /* it may launch */
	uint64_t held_ns;       /* since when another program is held; 0: none is */
	uint64_t launch_end_ns; /* drain: its end. Then: of the slice, once others are held */
	uint64_t held_end_ns;   /* others are not held any longer; 0: none is held */
	uint64_t pause_ns;      /* since when those that are held see no work of the owner; 0: no */
	uint64_t next_ns;       /* no turn begins before */
	uint64_t drain_ns;      /* the length of the next drain; 0: the first */
	uint64_t beside_end_ns; /* work on probation needs no turn until then */
};

/* What the worker of a session on probation sees before it gives the GPU work. */
struct probation_view {
	uint64_t now_ns;
	uint64_t since_ns; /* since when it waits with this work */
	bool others_work;  /* another program has work */
	bool own_work;     /* its turn is spent, and work of it has not ended */
};

/*
 * Whether `program' may give the GPU work now. If not, its worker looks again soon. The turn is its
 * own before it may launch: the look at the work of others comes after others see whose turn it is.
 */
bool probation_turn_take(
	struct probation_turn *turn, uint64_t program, const struct probation_view *view);

/*
 * Whether the owner, which has drained the GPU, may launch nothing more: others are held. Its work
 * has to be looked at.
 */
bool probation_turn_is_spent(const struct probation_turn *turn, uint64_t now_ns);

/* Whether another program has to wait with its work; `owner_works': the owner has work. */
bool probation_turn_holds(struct probation_turn *turn, uint64_t now_ns, bool owner_works);

/* Ends the turn of the program, if it is that. */
void probation_turn_end(struct probation_turn *turn, uint64_t program, uint64_t now_ns);

#endif
