/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_FILE_H
#define IMAGE_FILE_H

/*
 * Images of GPU code in files. Any thread.
 */

#include "client/util/api.h"

/* All of a file, with a NUL behind it; the caller frees. The size may be NULL. */
CUresult image_read_file(const char *path, char **ret_bytes, size_t *ret_size);

#endif
