/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which process a program may trust. Any thread.
 *
 * Invariant: the decision about a connection depends on the listener's UID, from
 * the kernel. Names and mounts can only make it stricter, or earlier.
 */

#include "trust.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define OVERFLOW_UID_DEFAULT 65534
#define LINE_SIZE 4096
/* (uid_t)-1 is no UID. */
#define UID_COUNT 0xffffffffU

static uint64_t number_next(const char **text)
{
	uint64_t value = 0;

	while (**text == ' ')
		(*text)++;
	for (; **text >= '0' && **text <= '9'; (*text)++)
		value = value * 10 + (uint64_t)(**text - '0');
	return value;
}

static uid_t overflow_uid(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
	char line[32];
	const char *at = line;

	return file && fgets(line, sizeof(line), file) ? (uid_t)number_next(&at)
						       : OVERFLOW_UID_DEFAULT;
}

/*
 * Whether this user namespace has a number for root of its parent namespace. A
 * line of the map is "here there count".
 */
static bool is_root_mapped(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/uid_map", "re");
	char line[64];

	/* A kernel without user namespaces has no such file. */
	if (!file)
		return true;
	while (fgets(line, sizeof(line), file)) {
		const char *at = line;

		number_next(&at);
		if (number_next(&at) == 0 && number_next(&at) > 0)
			return true;
	}
	return false;
}

/* Whether every UID has a number in this user namespace, as in the first one. */
static bool has_all_uids(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/uid_map", "re");
	uint64_t sum = 0;
	char line[64];

	if (!file)
		return true;
	while (fgets(line, sizeof(line), file)) {
		const char *at = line;

		number_next(&at);
		number_next(&at);
		sum += number_next(&at);
	}
	return sum >= UID_COUNT;
}

/*
 * The UID that stands for all UIDs without a number in this namespace. A
 * container engine's map of 65536 UIDs contains that UID: it then is also a user
 * of the container, and nothing tells the two apart.
 */
static bool is_unknown(uid_t uid)
{
	return uid == overflow_uid() && !has_all_uids();
}

/* Decodes "\040" and the like, which stand for bytes that would end a field. */
static void unescape(char *field)
{
	char *to = field;

	for (const char *from = field; *from; to++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] && from[3]) {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* Whether a line of mountinfo is this mount point, and not a FUSE mount, which a process serves. */
static bool is_mount_of(char *line, const char *path)
{
	char *rest = NULL, *point = NULL;
	const char *type = strstr(line, " - ");

	if (!type || strncmp(type + 3, "fuse", 4) == 0)
		return false;
	/* number parent major:minor root point ... */
	for (unsigned i = 0; i < 5; i++)
		point = strtok_r(i == 0 ? line : NULL, " ", &rest);
	if (!point)
		return false;
	unescape(point);
	return strcmp(point, path) == 0;
}

static bool is_mount_point(const char *directory)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[LINE_SIZE], path[PATH_MAX];

	if (!file || !realpath(directory, path))
		return false;
	while (fgets(line, sizeof(line), file))
		if (is_mount_of(line, path))
			return true;
	return false;
}

static void directory_of(const char *socket_path, char directory[PATH_MAX])
{
	const char *slash = strrchr(socket_path, '/');
	size_t length = slash ? (size_t)(slash - socket_path) : 0;

	snprintf(directory, PATH_MAX, "%.*s", (int)MIN(length, (size_t)PATH_MAX - 1), socket_path);
	if (length == 0)
		snprintf(directory, PATH_MAX, "%s", slash ? "/" : ".");
}

static bool is_named(uid_t uid)
{
	const char *text = secure_getenv("MPS_TRUST_UID");

	return text && *text >= '0' && *text <= '9' && number_next(&text) == uid && !*text;
}

static bool is_trusted(uid_t uid, const char *socket_path)
{
	char directory[PATH_MAX];

	if (is_named(uid))
		return true;
	if (!is_unknown(uid))
		return uid == 0 || uid == geteuid();
	/* Root would have its own UID in this namespace. */
	if (is_root_mapped())
		return false;
	directory_of(socket_path, directory);
	return is_mount_point(directory);
}

static int refuse(const char *what, uid_t uid, char *why, size_t why_size)
{
	if (is_unknown(uid))
		snprintf(why, why_size,
			"%s belongs to UID %u, which stands for every user without a UID in this "
			"user namespace: mount the directory itself into the container, or set "
			"MPS_TRUST_UID=%u if no other such user can write there",
			what, (unsigned)uid, (unsigned)uid);
	else
		snprintf(why, why_size,
			"%s belongs to UID %u, neither root nor UID %u: set "
			"CUDA_MPS_PIPE_DIRECTORY to the directory of a daemon of yours or of root, "
			"or MPS_TRUST_UID=%u if you trust that user",
			what, (unsigned)uid, (unsigned)geteuid(), (unsigned)uid);
	return -EPERM;
}

/* By number: only newer libraries have stat() as a symbol. */
static int look(const char *path, struct stat *ret)
{
	return syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0) < 0 ? -errno : 0;
}

int trust_path(const char *socket_path, char *why, size_t why_size)
{
	char directory[PATH_MAX];
	struct stat st;

	directory_of(socket_path, directory);
	if (look(directory, &st) < 0)
		return 0;
	if (!is_trusted(st.st_uid, socket_path))
		return refuse(directory, st.st_uid, why, why_size);
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		snprintf(why, why_size,
			"other users can write to %s (mode %04o) and take the daemon's place: its "
			"owner can change that (chmod go-w %s)",
			directory, (unsigned)(st.st_mode & 07777), directory);
		return -EPERM;
	}
	if (look(socket_path, &st) < 0 || is_trusted(st.st_uid, socket_path))
		return 0;
	return refuse(socket_path, st.st_uid, why, why_size);
}

int trust_peer(int sock, const char *socket_path, char *why, size_t why_size)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	if (is_trusted(peer.uid, socket_path))
		return 0;
	return refuse(socket_path, peer.uid, why, why_size);
}
