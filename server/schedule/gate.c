/* SPDX-License-Identifier: Apache-2.0 */

#include "gate.h"

#include <stdio.h>

#include "base.h"
#include "clock.h"
#include "lock.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

/* The first pause between two looks, and the longest one. */
#define LOOKS(first, longest) .first_ns = (first), .longest_ns = (longest)

/*
 * What mostly comes at once is looked at every 20 us, what may last less and less often: each look
 * costs a call of the driver or a lock. Looks at work before a quiet call spin at first.
 */
static const struct gate_row {
	uint64_t first_ns, longest_ns; /* between two looks: twice as long each time */
	uint64_t spin_ns;              /* looks without sleeping before */
	uint64_t most_ns;              /* then it leaves the gate; 0: no limit */
	bool is_for_others;            /* the time does not count for MPS_GRACE_MS */
	const char *cause;             /* for gate_say_held_up() */
} rows[GATES] = {
	[GATE_BACKGROUND] = {LOOKS(20 * US, 20 * US)},
	[GATE_PARKED] = {LOOKS(20 * US, MS)},
	[GATE_DRAIN] = {LOOKS(20 * US, 2 * MS), .cause = "a stream of which waits for a semaphore"},
	[GATE_CLOSED] = {LOOKS(20 * US, 20 * US), .is_for_others = true,
		.cause = "a graph of which has a loop on the GPU"},
	[GATE_PROBATION] = {LOOKS(20 * US, 200 * US), .is_for_others = true},
	/* A kernel prints beside others then, and both may get lines of the other. */
	[GATE_PRINT] = {LOOKS(200 * US, 200 * US), .most_ns = 200 * MS},
	[GATE_LOOP] = {LOOKS(20 * US, MS), .is_for_others = true,
		.cause = "a graph of which has a loop on the GPU"},
	[GATE_BLOCKED] = {LOOKS(20 * US, 2 * MS),
		.cause = "a stream of which waits for a semaphore"},
	[GATE_EXCLUSIVE] = {LOOKS(20 * US, 2 * MS), .is_for_others = true,
		.cause = "a stream of which waits for a semaphore"},
	[GATE_LAUNCHING] = {LOOKS(20 * US, 20 * US), .is_for_others = true},
	[GATE_WORK] = {LOOKS(20 * US, 20 * US), .spin_ns = 30 * US, .is_for_others = true},
	[GATE_OPEN_WORK] = {LOOKS(20 * US, 2 * MS), .spin_ns = 30 * US, .is_for_others = true},
	[GATE_OPEN] = {LOOKS(2 * MS, 2 * MS), .is_for_others = true},
	[GATE_LOOP_END] = {LOOKS(MS, MS)},
	[GATE_ARRAY] = {LOOKS(50 * US, 50 * US)},
	[GATE_REST] = {LOOKS(100 * US, 5 * MS)},
	/* The session's kernels may wait for a copy that comes after this message. */
	[GATE_IDLE] = {LOOKS(10 * MS, 10 * MS), .most_ns = 1000 * MS},
	/* The client has waited for this work, except for that of its other threads. */
	[GATE_MAPPINGS] = {LOOKS(MS, MS), .most_ns = 1000 * MS},
	[GATE_DEFERRED] = {LOOKS(10 * MS, 10 * MS), .most_ns = 1000 * MS},
	[GATE_MOVE] = {LOOKS(50 * US, 50 * US), .is_for_others = true},
	[GATE_TURN] = {LOOKS(MS, 5 * MS), .is_for_others = true},
	[GATE_VICTIM] = {LOOKS(50 * US, 200 * US), .is_for_others = true},
	[GATE_SPACE] = {LOOKS(MS, 5 * MS), .is_for_others = true},
	[GATE_CLOCK] = {LOOKS(50 * US, 50 * US), .most_ns = 1000 * MS},
	/* No session has work meanwhile, but the deferred thread may get no processor for a while.
	 */
	[GATE_ARRAYS] = {LOOKS(50 * US, MS), .most_ns = 1000 * MS},
};

void gate_next(struct gate_wait *wait, enum gate gate, uint64_t until_ns)
{
	wait->gate = gate;
	wait->gate_ns = 0;
	wait->until_ns = until_ns;
}

static bool is_after(uint64_t now, uint64_t limit_ns)
{
	return limit_ns > 0 && now >= limit_ns;
}

bool gate_is_over(const struct gate_wait *wait)
{
	if (fault_get() != CUDA_SUCCESS || is_after(now_ns(), wait->end_ns))
		return true;
	return wait->session && !wait->ignores_end && atomic_load(&wait->session->is_ending);
}

/* The first look at this gate was in vain. */
static void arrive(struct gate_wait *wait, const struct gate_row *row, uint64_t now)
{
	lock_expect_none();
	wait->gate_ns = now;
	wait->sleep_ns = row->first_ns;
	if (wait->start_ns == 0)
		wait->start_ns = now;
	if (wait->until_ns == 0 && row->most_ns > 0)
		wait->until_ns = now + row->most_ns;
	if (wait->session && row->is_for_others) {
		atomic_store(&wait->session->waits_for_others, true);
		wait->is_noted = true;
	}
}

bool gate_again(struct gate_wait *wait)
{
	const struct gate_row *row = &rows[wait->gate];
	const uint64_t now = now_ns();

	if (wait->gate_ns == 0)
		arrive(wait, row, now);
	if (gate_is_over(wait) || is_after(now, wait->until_ns))
		return false;
	if (now - wait->gate_ns < row->spin_ns)
		return true;
	nanosleep(&(struct timespec){.tv_nsec = (long)wait->sleep_ns}, NULL);
	wait->sleep_ns = MIN(2 * wait->sleep_ns, row->longest_ns);
	return true;
}

uint64_t gate_waited_ns(const struct gate_wait *wait)
{
	return wait->start_ns > 0 ? now_ns() - wait->start_ns : 0;
}

void gate_look_soon(struct gate_wait *wait)
{
	wait->sleep_ns = rows[wait->gate].first_ns;
}

void gate_say(struct gate_wait *wait, const char *text)
{
	if (wait->is_said || !wait->session || gate_waited_ns(wait) < GATE_SAY_NS)
		return;
	wait->is_said = true;
	log_line("Client " SESSION_NAME " %s", SESSION_NAME_ARGS(wait->session), text);
}

void gate_say_held_up(struct gate_wait *wait, pid_t pid, uint32_t id)
{
	char text[128];

	snprintf(text, sizeof(text), "is held up by client {PID: %d, Context ID: %u}, %s", (int)pid,
		id, rows[wait->gate].cause);
	gate_say(wait, text);
}

void gate_end(struct gate_wait *wait)
{
	if (wait->is_noted)
		atomic_store(&wait->session->waits_for_others, false);
}
