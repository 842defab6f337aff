/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Running a warp: which of its lanes run next, and for how long. Runs on the thread
 * that runs the kernel. Between two groups, the warp has the program counter and frame
 * of every lane that is ready.
 */

#include "warp.h"

#include <string.h>

/* Backward branches of a turn: enough for progress, few enough while a lane spins. */
#define TURN_BRANCHES 1024

#define LOCAL_ALIGN 16u

bool ptx_warp_reserve(struct ptx_warp *warp, uint32_t n_rows, uint32_t local_size)
{
	if (n_rows > warp->n_rows) {
		uint32_t n = MAX(n_rows, warp->n_rows * 2);
		struct ptx_row *rows = realloc(warp->rows, n * sizeof(*rows));

		if (!rows) {
			ptx_run_fault(warp->run, PTX_FAULT_INTERNAL, 0, false);
			return false;
		}
		memset(rows + warp->n_rows, 0, (n - warp->n_rows) * sizeof(*rows));
		warp->rows = rows;
		warp->n_rows = n;
	}
	if (local_size > warp->local_size) {
		uint32_t size = ALIGN_UP(MAX(local_size, warp->local_size * 2), LOCAL_ALIGN);
		uint8_t *local = calloc(PTX_LANES, size);

		if (!local) {
			ptx_run_fault(warp->run, PTX_FAULT_INTERNAL, 0, false);
			return false;
		}
		for (unsigned l = 0; l < PTX_LANES && warp->local; l++)
			memcpy(local + (size_t)l * size, ptx_warp_local(warp, l), warp->local_size);
		free(warp->local);
		warp->local = local;
		warp->local_size = size;
	}
	return true;
}

/* Of two lanes, the one in the deeper frame is first, then the one at the lower address. */
static bool goes_before(const struct ptx_warp *warp, unsigned x, unsigned y)
{
	if (warp->frames[x] != warp->frames[y])
		return warp->frames[x] > warp->frames[y];
	return (uintptr_t)warp->pc[x] < (uintptr_t)warp->pc[y];
}

static bool is_together(const struct ptx_warp *warp, unsigned x, unsigned y)
{
	return warp->pc[x] == warp->pc[y] && warp->frames[x] == warp->frames[y] &&
	       warp->local_bases[x] == warp->local_bases[y];
}

/*
 * warp_pick() if no lane has had its turn, in one pass: a new leader leaves the lanes of the
 * one before behind, which wait where that one is, or in a frame further out.
 */
_hot_ static void pick_from_all(struct ptx_warp *warp, uintptr_t *ret_stop)
{
	unsigned leader = (unsigned)__builtin_ctz(warp->ready);
	uintptr_t stop = UINTPTR_MAX;
	uint32_t mask = 1u << leader;

	for (uint32_t left = warp->ready & (warp->ready - 1); left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		bool is_same_frame = warp->frames[l] == warp->frames[leader];

		if (is_together(warp, l, leader)) {
			mask |= 1u << l;
		} else if (goes_before(warp, l, leader)) {
			stop = is_same_frame ? (uintptr_t)warp->pc[leader] : UINTPTR_MAX;
			leader = l;
			mask = 1u << l;
		} else if (is_same_frame && warp->pc[l] != warp->pc[leader]) {
			stop = MIN(stop, (uintptr_t)warp->pc[l]);
		}
	}
	warp->mask = mask;
	warp->frame = warp->frames[leader];
	warp->local_base = warp->local_bases[leader];
	*ret_stop = stop;
}

/*
 * Forms the next group: its leader, and the lanes at the same place. *ret_stop is the
 * next place where other lanes wait to join. False if all lanes have had their turn.
 */
static bool warp_pick(struct ptx_warp *warp, uintptr_t *ret_stop)
{
	uint32_t left = warp->ready & ~warp->yielded;
	unsigned leader;

	if (!left)
		return false;
	if (left == warp->ready) {
		pick_from_all(warp, ret_stop);
		return true;
	}
	leader = (unsigned)__builtin_ctz(left);
	for (left &= left - 1; left; left &= left - 1)
		if (goes_before(warp, (unsigned)__builtin_ctz(left), leader))
			leader = (unsigned)__builtin_ctz(left);
	warp->mask = 0;
	*ret_stop = UINTPTR_MAX;
	for (left = warp->ready; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		if (is_together(warp, l, leader))
			warp->mask |= 1u << l;
		else if (warp->frames[l] == warp->frames[leader] &&
			 (uintptr_t)warp->pc[l] > (uintptr_t)warp->pc[leader])
			*ret_stop = MIN(*ret_stop, (uintptr_t)warp->pc[l]);
	}
	warp->frame = warp->frames[leader];
	warp->local_base = warp->local_bases[leader];
	return true;
}

_hot_ static void warp_run_group(struct ptx_warp *warp, uintptr_t stop)
{
	const struct ptx_insn *in = warp->pc[__builtin_ctz(warp->mask)];
	struct ptx_row *r = warp->rows + warp->frame;

	do
		in = in->exec(warp, r, in);
	while (in && (uintptr_t)in < stop);
	if (in)
		ptx_warp_set_pc(warp, warp->mask, in);
}

void ptx_warp_run(struct ptx_warp *warp)
{
	const atomic_bool *cancelled = warp->run->launch->cancelled;
	uint32_t yielded;
	uintptr_t stop;

	warp->yielded = 0;
	warp->budget = TURN_BRANCHES;
	while (warp_pick(warp, &stop)) {
		yielded = warp->yielded;
		warp_run_group(warp, stop);
		if (warp->run->fault.kind != PTX_FAULT_NONE)
			return;
		if (yielded == warp->yielded)
			continue;
		if (cancelled && atomic_load_explicit(cancelled, memory_order_relaxed)) {
			ptx_run_fault(warp->run, PTX_FAULT_CANCELLED, 0, false);
			return;
		}
		warp->budget = TURN_BRANCHES;
	}
}
