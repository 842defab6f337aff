/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends images. Any thread of the application.
 *
 * Invariant: one lock covers the frame on the connection and the message that
 * refers to it, so the server receives both in the same order.
 */

#include "image_send.h"

#include "frame.h"
#include "lock.h"
#include "reconnect.h"
#include "client/util/log.h"
#include "client/util/quiet.h"

CUresult image_send(const void *data, size_t size, image_message_fn *message, void *arg)
{
	_cleanup_close_ int fd = -EBADF;
	const struct frame_image frame = {.head = frame_head(FRAME_IMAGE, 1), .size = size};
	struct quiet quiet;
	CUresult result;
	int r;

	quiet_begin(&quiet);
	r = shm_create_image("mps-image", data, size, &fd);
	quiet_end(&quiet);
	if (r == -EFBIG)
		log_error("an image of %zu bytes cannot be loaded: raise the limit of the size of "
			  "files (ulimit -f)",
			size);
	if (r < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_hold(&server.sending);
	result = reconnect_send_frame(&server, &frame, fd);
	if (result == CUDA_SUCCESS)
		result = message(size, arg);
	return result;
}
