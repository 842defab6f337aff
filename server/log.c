/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Log lines go to standard error as plain text: the daemon reads them from a
 * pipe and stamps them. Any thread.
 *
 * Invariant: a line is one write() of less than PIPE_BUF bytes, so lines of
 * different threads never mix.
 */

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "log.h"

/* A terminal shares its flags with the shell that started us: those are left alone. */
static void make_nonblocking(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void log_init(void)
{
	make_nonblocking(STDERR_FILENO);
}

void log_line(const char *format, ...)
{
	int saved = errno;
	char line[LOG_LINE_MAX];
	va_list args;
	ssize_t n;
	int size;

	va_start(args, format);
	size = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (size < 0)
		return;
	size = MIN(size, (int)sizeof(line) - 2);
	line[size++] = '\n';
	do
		n = write(STDERR_FILENO, line, (size_t)size);
	while (n < 0 && errno == EINTR);
	errno = saved;
}

int log_move(int *ret_read_fd)
{
	_cleanup_close_ int read_fd = -EBADF, write_fd = -EBADF;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	read_fd = fds[0];
	write_fd = fds[1];
	make_nonblocking(write_fd);
	if (dup2(write_fd, STDERR_FILENO) < 0)
		return -errno;
	*ret_read_fd = TAKE_FD(read_fd);
	return 0;
}
