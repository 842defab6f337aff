/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends images. Any thread of the application.
 *
 * Invariant: an image's frame on the connection and the message that speaks of
 * it are sent under one lock, so the server meets them in the same order.
 */

#include <pthread.h>
#include <string.h>

#include "frame.h"
#include "image_send.h"
#include "link.h"

/* The server reads the frame when it comes to the message, perhaps behind much other work. */
#define IMAGE_SEND_MS 60000

static CUresult send_under_lock(
	const struct frame_image *frame, int fd, image_message_fn *message, void *arg)
{
	int r = frame_send(server.sock, frame, &fd, IMAGE_SEND_MS);

	if (r == 0)
		return message(frame->size, arg);
	/* Half a frame may be on the connection: nothing more can be said on it. */
	__atomic_store_n(&server.is_dead, 1, __ATOMIC_RELEASE);
	return CUDA_ERROR_MPS_RPC_FAILURE;
}

CUresult image_send(const void *data, size_t size, image_message_fn *message, void *arg)
{
	_cleanup_close_ int fd = -EBADF;
	struct frame_image frame = {.size = size};
	CUresult result;

	if (shm_create_image("mps-image", data, size, &fd) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	frame_init(&frame, FRAME_IMAGE, 1);
	pthread_mutex_lock(&server.sending);
	result = send_under_lock(&frame, fd, message, arg);
	pthread_mutex_unlock(&server.sending);
	return result;
}
