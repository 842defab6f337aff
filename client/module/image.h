/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_H
#define IMAGE_H

/*
 * Images of GPU code as programs hand them over: by their address alone. They
 * are the program's own and are believed, as the driver believes them.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * Finds where the image's bytes begin and how many they are. 0, or -EBADMSG:
 * it begins like nothing that is known.
 */
int image_find(const void *image, const void **ret_data, size_t *ret_size);

/*
 * An image that nvcc has linked: itself, then the fatbins it was linked from,
 * so that the server's driver can link them for its GPU. The caller frees
 * *ret_bytes; it is NULL if the image is of another kind. -EBADMSG: something
 * else is among them, or there are too many. -ENOMEM.
 */
int image_join(const void *image, void **ret_bytes, size_t *ret_size);

#endif
