/* SPDX-License-Identifier: Apache-2.0 */

#include "loop_turn.h"

#include "gate.h"
#include "lock.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/driver/session_stream.h"
#include "server/device/device.h"

/* Of a GPU. */
struct loops {
	struct loop_turn *first; /* has the turn, or waits for the end of the last loop */

	/* Only the first in the list uses these. */
	CUevent end; /* of the last loop; NULL: it has ended */
	CUstream stream;
	pid_t pid; /* of the client that launched the last loop */
	uint32_t session_id;
};

static struct loops all[DEVICES_MAX];

/* Of all lists. */
static struct lock lock = LOCK_INIT(LOOP_TURNS);

static void turn_append(struct loops *loops, struct loop_turn *turn)
{
	struct loop_turn **link = &loops->first;

	lock_take(&lock);
	while (*link)
		link = &(*link)->next;
	*turn = (struct loop_turn){0};
	*link = turn;
	lock_release(&lock);
}

static void turn_remove(struct loops *loops, const struct loop_turn *turn)
{
	lock_take(&lock);
	LIST_DROP(loops->first, turn);
	lock_release(&lock);
}

static bool turn_is_first(const struct loops *loops, const struct loop_turn *turn)
{
	bool is_first;

	lock_take(&lock);
	is_first = loops->first == turn;
	lock_release(&lock);
	return is_first;
}

static bool is_own(const struct loops *loops, const struct session *session)
{
	return loops->session_id == session->id;
}

/* Whether the session need not wait in the server. */
static bool may_go_on(const struct loops *loops, const struct session *session,
	const struct stream *stream, const struct loop_turn *turn)
{
	if (!turn_is_first(loops, turn))
		return false;
	return !loops->end || loops->stream == stream->home || is_own(loops, session) ||
	       cuda.cuEventQuery(loops->end) != CUDA_ERROR_NOT_READY;
}

/* False: the session ends, or the device is lost. */
static bool wait_for_turn(const struct loops *loops, struct session *session,
	const struct stream *stream, const struct loop_turn *turn)
{
	_cleanup_(gate_end) struct gate_wait wait = gate_wait(GATE_LOOP, session);

	while (!may_go_on(loops, session, stream, turn)) {
		if (!gate_again(&wait))
			return false;
		if (turn_is_first(loops, turn))
			gate_say_held_up(&wait, loops->pid, loops->session_id);
	}
	return true;
}

/* The end of the last loop, if it is on another stream of the session. */
static bool has_to_follow(
	const struct loops *loops, const struct session *session, const struct stream *stream)
{
	return loops->end && loops->stream != stream->home && is_own(loops, session);
}

CUresult loop_turn_take(struct session *session, const struct stream *stream,
	struct loop_turn *turn, CUevent *ret_before)
{
	struct loops *loops = &all[stream->device->ordinal];
	CUresult result = CUDA_ERROR_MPS_RPC_FAILURE;

	turn_append(loops, turn);
	*ret_before = NULL;
	if (wait_for_turn(loops, session, stream, turn)) {
		*ret_before = has_to_follow(loops, session, stream) ? loops->end : NULL;
		result = CUDA_SUCCESS;
	}
	if (result == CUDA_SUCCESS && !loops->end)
		result = cuda.cuEventCreate(&loops->end, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		turn_remove(loops, turn);
	return result;
}

/* Without an event that tells of the end, the session waits for it. */
static void note_end(struct loops *loops, struct session *session, const struct stream *stream)
{
	struct gate_wait wait = gate_wait(GATE_LOOP_END, session);

	loops->stream = stream->home;
	loops->pid = session->pid;
	loops->session_id = session->id;
	if (cuda.cuEventRecord(loops->end, stream->real) == CUDA_SUCCESS)
		return;
	while (cuda.cuStreamQuery(stream->real) == CUDA_ERROR_NOT_READY && gate_again(&wait))
		;
}

void loop_turn_give(struct session *session, const struct stream *stream, struct loop_turn *turn,
	bool is_launched)
{
	struct loops *loops = &all[stream->device->ordinal];

	if (is_launched)
		note_end(loops, session, stream);
	turn_remove(loops, turn);
}

static void drop_ended(struct loops *loops)
{
	if (!loops->end || cuda.cuEventQuery(loops->end) == CUDA_ERROR_NOT_READY)
		return;
	cuda.cuEventDestroy_v2(loops->end);
	loops->end = NULL;
}

/* A session that ends leaves no event behind, unless another session takes the event over. */
static void loop_turns_end(struct session *session, bool device_lost)
{
	struct loop_turn turn;

	if (!session->has_loops || device_lost)
		return;
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		turn_append(&all[i], &turn);
		if (turn_is_first(&all[i], &turn))
			drop_ended(&all[i]);
		turn_remove(&all[i], &turn);
	}
}

const struct session_part loop_turns_part = {
	.end = loop_turns_end,
	.is_recorded = true,
};
