/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Subordinate UIDs. Loop thread.
 *
 * Invariant: no range has UID 0, and no owner is root: a subordinate UID never
 * counts as root.
 */

#include "subordinate.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A decimal number without a sign; false: it is none, or too large. */
static bool parse_id(const char *text, uint32_t *ret_id)
{
	char *end;
	unsigned long long value;

	if (*text < '0' || *text > '9')
		return false;
	value = strtoull(text, &end, 10);
	if (*end || value > UINT32_MAX)
		return false;
	*ret_id = (uint32_t)value;
	return true;
}

/* A line "OWNER:FIRST:COUNT". */
static bool parse_line(char *line, struct subordinate_range *ret_range)
{
	const char *name = strsep(&line, ":"), *first = strsep(&line, ":"), *n = line;
	struct subordinate_range range = {0};

	if (!first || !n || !*name || strlen(name) >= sizeof(range.name))
		return false;
	if (!parse_id(first, &range.first) || !parse_id(n, &range.n))
		return false;
	if (range.first == 0 || range.n == 0 || range.n - 1 > UINT32_MAX - range.first)
		return false;
	snprintf(range.name, sizeof(range.name), "%s", name);
	if (!parse_id(name, &range.owner) || range.owner == 0)
		range.owner = range.first;
	*ret_range = range;
	return true;
}

/* Skips the rest of a line that does not fit. */
static bool is_whole(char *line, FILE *file)
{
	size_t size = strcspn(line, "\n");
	bool is_cut = line[size] != '\n' && !feof(file);

	line[size] = '\0';
	if (is_cut)
		for (int c = fgetc(file); c != '\n' && c != EOF;)
			c = fgetc(file);
	return !is_cut;
}

static size_t read_ranges(FILE *file, struct subordinate_range *ranges)
{
	char line[256];
	size_t n = 0;

	while (n < SUBORDINATE_RANGES_MAX && fgets(line, sizeof(line), file))
		n += is_whole(line, file) && parse_line(line, &ranges[n]);
	return n;
}

static void resolve_names(struct subordinate_range *ranges, size_t n, const char *passwd_path)
{
	_cleanup_fclose_ FILE *file = fopen(passwd_path, "re");
	const struct passwd *entry;

	while (file && (entry = fgetpwent(file)))
		for (size_t i = 0; i < n; i++)
			if (entry->pw_uid != 0 && strcmp(ranges[i].name, entry->pw_name) == 0)
				ranges[i].owner = entry->pw_uid;
}

static bool is_unchanged(const struct subordinates *subordinates, const struct stat *st)
{
	return subordinates->inode == st->st_ino && subordinates->size == st->st_size &&
	       subordinates->changed.tv_sec == st->st_mtim.tv_sec &&
	       subordinates->changed.tv_nsec == st->st_mtim.tv_nsec;
}

static void read_file(struct subordinates *subordinates, FILE *file, const struct stat *st,
	const char *passwd_path)
{
	if (!subordinates->ranges)
		subordinates->ranges =
			calloc(SUBORDINATE_RANGES_MAX, sizeof(*subordinates->ranges));
	if (!subordinates->ranges)
		return;
	subordinates->n = read_ranges(file, subordinates->ranges);
	resolve_names(subordinates->ranges, subordinates->n, passwd_path);
	subordinates->inode = st->st_ino;
	subordinates->size = st->st_size;
	subordinates->changed = st->st_mtim;
}

void subordinates_refresh(
	struct subordinates *subordinates, const char *path, const char *passwd_path)
{
	_cleanup_fclose_ FILE *file = NULL;
	struct stat st;
	int fd;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
		subordinates->n = 0;
		subordinates->inode = 0;
		return;
	}
	if (is_unchanged(subordinates, &st))
		return;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (file)
		read_file(subordinates, file, &st, passwd_path);
	else if (fd >= 0)
		close(fd);
}

uid_t subordinates_owner(const struct subordinates *subordinates, uid_t uid)
{
	for (size_t i = 0; i < subordinates->n; i++)
		if (uid >= subordinates->ranges[i].first &&
			uid - subordinates->ranges[i].first < subordinates->ranges[i].n)
			return subordinates->ranges[i].owner;
	return uid;
}

void subordinates_fini(struct subordinates *subordinates)
{
	free(subordinates->ranges);
	*subordinates = (struct subordinates){0};
}
