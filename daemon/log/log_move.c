/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The text of a full log. Loop thread.
 *
 * Invariant: the log is emptied only after all of its text is in the other file.
 */

#include "log_move.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/text/same_file.h"

int log_move_begin(struct log_move *move, int directory, const char *name, int log, const char *old)
{
	_cleanup_close_ int from = -EBADF, to = -EBADF;
	struct stat st;

	from = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (from < 0)
		return -errno;
	/* Another program may have renamed the log. */
	if (!same_file(from, log) || fstat(log, &st) < 0)
		return -ESTALE;
	if (unlinkat(directory, old, 0) < 0 && errno != ENOENT)
		return -errno;
	to = openat(directory, old, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0 || fchmod(to, st.st_mode & 07777) < 0)
		return -errno;
	*move = (struct log_move){.is_active = true, .from = TAKE_FD(from), .to = TAKE_FD(to)};
	return 0;
}

void log_move_end(struct log_move *move)
{
	if (!move->is_active)
		return;
	close(move->from);
	close(move->to);
	move->is_active = false;
}

static int move_piece(struct log_move *move)
{
	char bytes[LOG_MOVE_PIECE];
	ssize_t n = pread(move->from, bytes, sizeof(bytes), move->n_moved);

	if (n < 0 || write(move->to, bytes, (size_t)n) != n)
		return errno ? -errno : -ENOSPC;
	move->n_moved += n;
	/* The log does not grow meanwhile: this thread writes it. */
	if ((size_t)n == sizeof(bytes))
		return 0;
	return ftruncate(move->from, 0) < 0 ? -errno : 1;
}

int log_move_step(struct log_move *move)
{
	int r;

	errno = 0;
	r = move_piece(move);
	if (r != 0)
		log_move_end(move);
	return r;
}
