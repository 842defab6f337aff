/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the configuration file. main() and the loop thread.
 *
 * Invariant: the checked file is the one that is read: both use one descriptor.
 */

#include "config_text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* What is wrong with the permissions; true: nothing is. */
static bool has_safe_permissions(
	const char *path, const struct stat *st, struct error_message *complaint)
{
	unsigned mode = (unsigned)(st->st_mode & 07777);

	complaint->text[0] = '\0';
	if (st->st_uid != 0 && st->st_uid != geteuid())
		error_message_set(complaint, 0,
			"%.200s: the file belongs to UID %u, who can change what the daemon does: "
			"give it to root (chown root %.100s)",
			path, st->st_uid, path);
	else if (mode & (S_IWGRP | S_IWOTH))
		error_message_set(complaint, 0,
			"%.200s: other users can write the file (mode %04o) and so change what the "
			"daemon does: forbid that (chmod go-w %.100s)",
			path, mode, path);
	return !complaint->text[0];
}

static int check_file(
	int fd, const char *path, struct config_text *text, struct error_message *error)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_message_set(
			error, -errno, "%.200s: cannot be read: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_message_set(error, -EINVAL,
			"%.200s: is not a regular file, which a configuration file has to be",
			path);
	if (st.st_size > CONFIG_FILE_MAX)
		return error_message_set(error, -EFBIG,
			"%.200s: has %lld bytes, more than the limit of %u", path,
			(long long)st.st_size, CONFIG_FILE_MAX);
	if (has_safe_permissions(path, &st, &text->warning) || geteuid() != 0)
		return 0;
	*error = text->warning;
	return -EPERM;
}

/* Until the end, even if the file has grown since: one byte more than the limit shows that. */
static int read_all(int fd, char *bytes, size_t *ret_size)
{
	size_t size = 0;
	ssize_t n;

	do {
		n = read(fd, bytes + size, CONFIG_FILE_MAX + 1 - size);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return -errno;
		else
			size += (size_t)n;
	} while (n > 0 && size <= CONFIG_FILE_MAX);
	*ret_size = size;
	return size <= CONFIG_FILE_MAX ? 0 : -EFBIG;
}

int config_text_read(const char *path, struct config_text *ret, struct error_message *error)
{
	/* Without O_NONBLOCK a FIFO of that name would block the daemon for ever. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_free_ char *bytes = NULL;
	struct config_text text = {0};
	int r;

	if (fd < 0)
		return error_message_set(
			error, -errno, "%.200s: cannot be read: %s", path, strerror(errno));
	r = check_file(fd, path, &text, error);
	if (r < 0)
		return r;
	bytes = malloc(CONFIG_FILE_MAX + 2);
	r = bytes ? read_all(fd, bytes, &text.size) : -ENOMEM;
	if (r < 0)
		return error_message_set(
			error, r, "%.200s: cannot be read: %s", path, strerror(-r));
	bytes[text.size] = '\0';
	text.bytes = TAKE_PTR(bytes);
	*ret = text;
	return 0;
}
