/* SPDX-License-Identifier: Apache-2.0 */

#include "kernel_file.h"

#include <fcntl.h>

int kernel_file_read(const char *path, char *text, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return 0;
}
