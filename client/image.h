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

#endif
