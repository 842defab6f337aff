/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads images from files. Any thread of the application.
 *
 * Invariant: a NUL follows the bytes, because PTX in a file does not end with one.
 */

#include "image_file.h"

#include <fcntl.h>

/* The driver reads whole files too; real images are smaller. */
#define FILE_MAX (1ull << 31)

CUresult image_read_file(const char *path, char **ret_bytes, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	_cleanup_free_ char *bytes = NULL;
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	off_t done = 0;

	if (size < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (size == 0 || (uint64_t)size > FILE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	bytes = calloc(1, (size_t)size + 1);
	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (done < size) {
		ssize_t n = pread(fd, bytes + done, (size_t)(size - done), done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return CUDA_ERROR_OPERATING_SYSTEM;
		done += n;
	}
	if (ret_size)
		*ret_size = (size_t)size;
	*ret_bytes = TAKE_PTR(bytes);
	return CUDA_SUCCESS;
}
