/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_H
#define IMAGE_H

/*
 * Images of GPU code, which programs pass by their address alone. They are the
 * program's own memory and are trusted, as in the driver.
 */

#include <stddef.h>

/* Finds the first byte and the size of the image. 0, or -EBADMSG: the format is unknown. */
int image_find(const void *image, const void **ret_data, size_t *ret_size);

/*
 * For an image that nvcc has linked: the image, then the fatbins from which it was
 * linked, so that the server's driver can link them for its GPU. The caller frees
 * *ret_bytes, which is NULL for other images. -EBADMSG: a part has an unknown
 * format, or there are too many parts. -ENOMEM.
 */
int image_join(const void *image, void **ret_bytes, size_t *ret_size);

#endif
