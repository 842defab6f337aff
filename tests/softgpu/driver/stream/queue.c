/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Hardware queues: which queue work goes to, and which wait is before it there.
 *
 * Invariant: an entry keeps a reference to its stream.
 */

#include "queue.h"

#include <stdlib.h>

#define QUEUES_DEFAULT 8
#define QUEUES_MAX 32

static struct dependency queues[QUEUES_MAX]; /* the last wait for a semaphore in each */

static unsigned n_queues(void)
{
	static unsigned n;
	const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	long wanted = text ? strtol(text, NULL, 10) : QUEUES_DEFAULT;

	if (n == 0)
		n = wanted >= 1 && wanted <= QUEUES_MAX ? (unsigned)wanted : QUEUES_DEFAULT;
	return n;
}

unsigned queue_home(const struct stream *stream)
{
	return (unsigned)(stream->id % n_queues());
}

static bool waits_for_word(const struct work *work)
{
	if (work->kind != WORK_MEMOPS)
		return false;
	for (uint32_t i = 0; i < work->memops.n_ops; i++)
		if (work->memops.ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
			work->memops.ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
			return true;
	return false;
}

/* Whether the queue's last known work is a wait of another stream. */
static bool is_blocked(unsigned number, const struct stream *stream)
{
	struct dependency *last = &queues[number];

	if (last->stream && stream_reached(last->stream, last->ticket)) {
		stream_unref(last->stream);
		last->stream = NULL;
	}
	return last->stream && last->stream != stream;
}

static void find_free(struct stream *stream)
{
	for (unsigned i = 0; i < n_queues(); i++) {
		unsigned number = (stream->queue + i) % n_queues();

		if (is_blocked(number, stream))
			continue;
		stream->queue = number;
		return;
	}
}

bool queue_put(struct stream *stream, const struct work *work, struct dependency *ret_before)
{
	bool is_idle = !stream->head;

	if (work->kind == WORK_STAMP)
		return false;
	if (work->kind != WORK_MEMOPS && work->kind != WORK_NONE) {
		if (!is_idle)
			return false;
		find_free(stream);
	}
	if (!is_blocked(stream->queue, stream))
		return false;
	*ret_before = queues[stream->queue];
	return true;
}

void queue_note(struct stream *stream, const struct work *work, uint64_t ticket)
{
	struct dependency *last = &queues[stream->queue];

	if (!waits_for_word(work))
		return;
	stream_unref(last->stream);
	*last = (struct dependency){.stream = stream_ref(stream), .ticket = ticket};
}
