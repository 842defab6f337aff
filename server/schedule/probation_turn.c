/* SPDX-License-Identifier: Apache-2.0 */

/* Turns on a GPU during probation. Under the lock of probation.c. */

#include "probation_turn.h"

static void end_turn(struct probation_turn *turn, uint64_t now_ns)
{
	const uint64_t held_ns = turn->held_ns > 0 ? now_ns - turn->held_ns : 0;

	turn->owner = 0;
	turn->is_drained = false;
	turn->next_ns = now_ns + TURN_OPEN_FACTOR * held_ns;
	turn->held_ns = turn->held_end_ns = turn->launch_end_ns = turn->pause_ns = 0;
}

void probation_turn_end(struct probation_turn *turn, uint64_t program, uint64_t now_ns)
{
	if (turn->owner == program)
		end_turn(turn, now_ns);
}

static void begin_turn(struct probation_turn *turn, uint64_t program, uint64_t now_ns)
{
	turn->owner = program;
	turn->launch_end_ns = now_ns + MAX(turn->drain_ns, TURN_DRAIN_NS);
}

/* No other program has work any more. */
static void begin_slice(struct probation_turn *turn, uint64_t now_ns)
{
	const uint64_t drained_ns = turn->held_ns > 0 ? now_ns - turn->held_ns : 0;

	turn->is_drained = true;
	turn->drain_ns = MIN(2 * drained_ns, TURN_DRAIN_MAX_NS);
	turn->launch_end_ns = now_ns + MAX(drained_ns, TURN_SLICE_NS);
	if (turn->held_ns > 0)
		turn->held_end_ns = turn->launch_end_ns + TURN_TAIL_NS;
}

/* The work of others lasts. */
static void fail_drain(struct probation_turn *turn, uint64_t now_ns)
{
	const uint64_t drain_ns = MAX(turn->drain_ns, TURN_DRAIN_NS);

	if (drain_ns >= TURN_DRAIN_MAX_NS)
		turn->beside_end_ns = now_ns + TURN_BESIDE_NS;
	turn->drain_ns = MIN(2 * drain_ns, TURN_DRAIN_MAX_NS);
	end_turn(turn, now_ns);
}

static bool go_on_draining(struct probation_turn *turn, const struct probation_view *view)
{
	if (!view->others_work)
		begin_slice(turn, view->now_ns);
	else if (view->now_ns >= turn->launch_end_ns)
		fail_drain(turn, view->now_ns);
	return turn->is_drained;
}

bool probation_turn_is_spent(const struct probation_turn *turn, uint64_t now_ns)
{
	return turn->held_ns > 0 && now_ns >= turn->launch_end_ns;
}

static bool go_on(struct probation_turn *turn, const struct probation_view *view)
{
	if (!turn->is_drained)
		return go_on_draining(turn, view);
	turn->pause_ns = 0;
	if (!probation_turn_is_spent(turn, view->now_ns))
		return true;
	if (!view->own_work || view->now_ns >= turn->held_end_ns)
		end_turn(turn, view->now_ns);
	return false;
}

bool probation_turn_take(
	struct probation_turn *turn, uint64_t program, const struct probation_view *view)
{
	if (view->now_ns < turn->beside_end_ns)
		return true;
	if (turn->owner == program)
		return go_on(turn, view);
	if (turn->owner == 0 && view->now_ns >= turn->next_ns &&
		(!view->others_work || view->now_ns - view->since_ns >= TURN_PATIENCE_NS))
		begin_turn(turn, program, view->now_ns);
	return false;
}

/* The first one that is held: without a drain, the owner launches nothing more. */
static void begin_holding(struct probation_turn *turn, uint64_t now_ns)
{
	turn->held_ns = now_ns;
	if (turn->is_drained)
		turn->launch_end_ns = now_ns;
	turn->held_end_ns = turn->launch_end_ns + TURN_TAIL_NS;
}

bool probation_turn_holds(struct probation_turn *turn, uint64_t now_ns, bool owner_works)
{
	if (turn->owner == 0)
		return false;
	if (turn->held_ns == 0)
		begin_holding(turn, now_ns);
	if (owner_works || !turn->is_drained)
		turn->pause_ns = 0;
	else if (turn->pause_ns == 0)
		turn->pause_ns = now_ns;
	if (now_ns < turn->held_end_ns &&
		(owner_works || !turn->is_drained ||
			(now_ns < turn->launch_end_ns && now_ns - turn->pause_ns < TURN_PAUSE_NS)))
		return true;
	end_turn(turn, now_ns);
	return false;
}
