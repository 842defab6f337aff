/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_FILE_H
#define IMAGE_FILE_H

/*
 * Images of GPU code in files. Any thread.
 */

#include "client/util/api.h"

/* Reads a whole file and appends a NUL; the caller frees it. `ret_size' may be NULL. */
CUresult image_read_file(const char *path, char **ret_bytes, size_t *ret_size);

#endif
