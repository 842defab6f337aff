/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: there are bytes exactly as long as some of them wait, so `n_sent' < `size'.
 */

#include "frame_queue.h"

#include <string.h>
#include <sys/socket.h>

#include "frame.h"

/* Sends bytes of the stream without waiting: how many, or -errno of a broken connection. */
static ssize_t send_some(int sock, const void *bytes, size_t size)
{
	ssize_t n;

	do
		n = send(sock, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	return n;
}

static int frame_queue_add(struct frame_queue *queue, const void *bytes, size_t size)
{
	size_t space = MAX(queue->space, FRAME_MAX);
	uint8_t *larger;

	while (space - queue->size < size)
		space *= 2;
	if (space > queue->space) {
		larger = realloc(queue->bytes, space);
		if (!larger)
			return -ENOMEM;
		queue->bytes = larger;
		queue->space = space;
	}
	memcpy(queue->bytes + queue->size, bytes, size);
	queue->size += size;
	return 0;
}

int frame_queue_send(struct frame_queue *queue, int sock, const void *frame)
{
	const struct frame_head *head = frame;
	ssize_t n = 0;

	if (frame_queue_is_empty(queue))
		n = send_some(sock, frame, head->size);
	if (n < 0 || (size_t)n == head->size)
		return n < 0 ? (int)n : 0;
	return frame_queue_add(queue, (const uint8_t *)frame + n, head->size - (size_t)n);
}

int frame_queue_flush(struct frame_queue *queue, int sock)
{
	while (!frame_queue_is_empty(queue)) {
		ssize_t n =
			send_some(sock, queue->bytes + queue->n_sent, queue->size - queue->n_sent);

		if (n <= 0)
			return (int)n;
		queue->n_sent += (size_t)n;
		if (queue->n_sent == queue->size)
			frame_queue_clear(queue);
	}
	return 0;
}

void frame_queue_clear(struct frame_queue *queue)
{
	free(queue->bytes);
	*queue = (struct frame_queue){0};
}
