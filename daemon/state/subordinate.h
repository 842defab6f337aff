/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUBORDINATE_H
#define SUBORDINATE_H

/*
 * The ranges of subordinate UIDs in a file of the format of subuid(5), and
 * their owners. Loop thread: the file is small and local, and names are looked
 * up in a local passwd file, never in the name service.
 */

#include <sys/types.h>
#include <time.h>

#include "base.h"

/* Ranges beyond that are ignored. */
#define SUBORDINATE_RANGES_MAX 4096

struct subordinate_range {
	uid_t first;
	uint32_t n;
	uid_t owner;
	char name[64]; /* of the owner */
};

/* Zero-initialised: no ranges. */
struct subordinates {
	struct subordinate_range *ranges;
	size_t n;
	/* The file that was read; inode 0: none. */
	ino_t inode;
	off_t size;
	struct timespec changed;
};

/* Reads the file if it has changed since the last call. Without memory the old ranges stay. */
void subordinates_refresh(
	struct subordinates *subordinates, const char *path, const char *passwd_path);

/*
 * The owner of the range that has the UID, or the UID itself. A range whose
 * owner is root, or is not in the passwd file, stands for its owner by its
 * first UID.
 */
uid_t subordinates_owner(const struct subordinates *subordinates, uid_t uid);

void subordinates_fini(struct subordinates *subordinates);

#endif
