/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The record: the servers, one per line, and then the lines of the state. Loop thread.
 *
 * Invariant: the file is complete at any time: it is written under another
 * name and then renamed. The other name is a file with space reserved for the next record, so
 * a full disk does not prevent it.
 */

#include "record.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_FILE "control_servers"
#define NEW_FILE "control_servers.new"
#define TITLE "mps-control 1 "

/* More than GROUPS_MAX groups with limits of all GPUs need. */
#define STATE_MAX (8 << 20)

/* Bytes that the next record has on a full disk: many servers, and some limits. */
#define RESERVED (16 << 10)

/* After a reboot PIDs belong to other processes. */
static int read_boot_id(char *text, size_t size)
{
	_cleanup_close_ int fd =
		open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_NOCTTY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

/* The reserved file, or another one if it is missing. */
static int open_new_file(int directory)
{
	int fd = openat(
		directory, NEW_FILE, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		(st.st_mode & 07777) == 0600 && st.st_nlink == 1)
		return fd;
	closep(&fd);
	unlinkat(directory, NEW_FILE, 0);
	return openat(
		directory, NEW_FILE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void record_reserve(int directory)
{
	_cleanup_close_ int fd = open_new_file(directory);

	/* Without the space, the next record may fail, which is reported then. */
	if (fd >= 0)
		(void)posix_fallocate(fd, 0, RESERVED);
}

void record_release(int directory)
{
	unlinkat(directory, NEW_FILE, 0);
}

static int write_records(int directory, const struct record *records, size_t n, const char *state)
{
	_cleanup_fclose_ FILE *file = NULL;
	char boot[64];
	int fd, r = read_boot_id(boot, sizeof(boot));

	if (r < 0)
		return r;
	fd = open_new_file(directory);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file)
		return -errno;
	fprintf(file, TITLE "%s\n", boot);
	for (size_t i = 0; i < n; i++)
		fprintf(file, "%d %u %llu %u %u %u%s%s\n", records[i].pid, records[i].uid,
			(unsigned long long)records[i].start_time, records[i].is_isolated,
			records[i].program, records[i].client_uid, *records[i].name ? " " : "",
			records[i].name);
	fputs(state, file);
	if (fflush(file) != 0)
		return -errno;
	return ftruncate(fd, ftell(file)) < 0 ? -errno : 0;
}

int record_store(int directory, const struct record *records, size_t n, const char *state)
{
	int r = 0;

	if (n == 0 && !*state) {
		if (unlinkat(directory, RECORD_FILE, 0) < 0 && errno != ENOENT)
			r = -errno;
		record_reserve(directory);
		return r;
	}
	r = write_records(directory, records, n, state);
	if (r == 0 && renameat(directory, NEW_FILE, directory, RECORD_FILE) < 0)
		r = -errno;
	record_reserve(directory);
	return r;
}

/* Only the daemon can have written the file: the directory and the file are its own. */
static FILE *open_record_file(int directory)
{
	int fd = openat(
		directory, RECORD_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	FILE *file;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		(st.st_mode & (S_IWGRP | S_IWOTH))) {
		close(fd);
		errno = EPERM;
		return NULL;
	}
	file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

/* An earlier daemon may have been of a build that wrote three numbers, or no name. */
static bool parse_record(const char *line, struct record *record)
{
	unsigned long long start_time;
	unsigned is_isolated = 0;
	int n;

	*record = (struct record){0};
	n = sscanf(line, "%d %u %llu %u %u %u %64s\n", &record->pid, &record->uid, &start_time,
		&is_isolated, &record->program, &record->client_uid, record->name);
	if ((n != 3 && n < 6) || record->pid <= 0)
		return false;
	record->start_time = start_time;
	record->is_isolated = is_isolated;
	return true;
}

/* The rest of the file, which has STATE_MAX bytes at most. */
static char *read_state(FILE *file)
{
	_cleanup_free_ char *text = malloc(STATE_MAX + 1);
	size_t n = text ? fread(text, 1, STATE_MAX, file) : 0;

	if (!text || !feof(file))
		return NULL;
	text[n] = '\0';
	return TAKE_PTR(text);
}

int record_load(int directory, struct record *records, size_t n_max, char **ret_state)
{
	_cleanup_fclose_ FILE *file = open_record_file(directory);
	char line[256], title[128], boot[64];
	size_t n = 0;
	long at;

	*ret_state = NULL;
	if (!file)
		return errno == ENOENT ? 0 : -errno;
	if (read_boot_id(boot, sizeof(boot)) < 0 || !fgets(line, sizeof(line), file))
		return 0;
	snprintf(title, sizeof(title), TITLE "%s\n", boot);
	if (strcmp(line, title) != 0)
		return 0;
	do
		at = ftell(file);
	while (n < n_max && fgets(line, sizeof(line), file) && parse_record(line, &records[n]) &&
		++n > 0);
	if (at >= 0 && fseek(file, at, SEEK_SET) == 0)
		*ret_state = read_state(file);
	return (int)n;
}
