/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parked streams. A worker.
 *
 * Invariant: work that was put on the GPU for a stream precedes its unfinished host
 * function, or follows a wait on the GPU for that function's end.
 */

#include "park.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pending_wait.h"
#include "stream.h"
#include "server/session/at_work.h"
#include "server/session/session.h"
#include "server/schedule/gate.h"

/* How long a host function may run before the server considers threads that wait for answers. */
#define PATIENCE_NS 1000000000

bool park_is_over(const struct session *session, struct stream *stream)
{
	if (stream->parked && shm_load64(&session->ring->done[stream->id]) >= stream->parked)
		stream->parked = 0;
	return stream->parked == 0;
}

/* For an answer, or for space in the ring. */
static bool somebody_waits(const struct session *session)
{
	const struct ring_receiver *receiver = &session->receiver;

	if (shm_load32(&receiver->control->tail) - receiver->head > RING_SIZE / 2)
		return true;
	for (unsigned slot = 0; slot < REPLY_SLOTS; slot++)
		if (shm_load32(&receiver->control->waiting[slot]))
			return true;
	return false;
}

/* The state comes after the name, which may contain any characters. False also if it is unknown. */
static bool is_stopped(pid_t pid)
{
	_cleanup_close_ int fd = -EBADF;
	char path[64], text[256];
	const char *end;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	text[MAX(n, 0)] = 0;
	end = strrchr(text, ')');
	return end && (!strncmp(end, ") T", 3) || !strncmp(end, ") t", 3));
}

void park_wait(struct session *session, struct stream *stream, bool may_block)
{
	struct gate_wait wait = gate_wait(GATE_PARKED, session);
	uint64_t patient_ns = PATIENCE_NS;

	while (!park_is_over(session, stream) && gate_again(&wait)) {
		if (gate_waited_ns(&wait) < patient_ns)
			continue;
		patient_ns += PATIENCE_NS;
		session_set_at_work(session, streams_are_at_work(session));
		if (!may_block || !somebody_waits(session) || is_stopped(session->pid))
			continue;
		if (pending_waits_for_call(session, stream, stream->parked) == CUDA_SUCCESS)
			stream->parked = 0;
	}
}
