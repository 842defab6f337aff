/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_SEND_H
#define IMAGE_SEND_H

/*
 * An image on its way to the server: a sealed memory on the connection, then
 * the message that speaks of it. Any thread.
 */

#include "client/util/api.h"

/* Sends the message, whose image has `size' bytes. */
typedef CUresult image_message_fn(uint64_t size, void *arg);

/* The message's result, or that of what kept it back. */
CUresult image_send(const void *data, size_t size, image_message_fn *message, void *arg);

#endif
