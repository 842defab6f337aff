/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_SEND_H
#define IMAGE_SEND_H

/*
 * Sends an image to the server: a sealed memory over the connection, then the
 * message that refers to it. Any thread.
 */

#include "client/util/api.h"

/* Sends the message for an image of `size' bytes. */
typedef CUresult image_message_fn(uint64_t size, void *arg);

/* The result of the message, or of the step that failed before it. */
CUresult image_send(const void *data, size_t size, image_message_fn *message, void *arg);

#endif
