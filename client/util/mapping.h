/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAPPING_H
#define MAPPING_H

/* Finds the file behind a shared mapping of the program, if the file is in memory. Any thread. */

#include "base.h"

/* A line of /proc/self/maps. */
struct area {
	uint64_t start, end, offset, filesystem, inode;
	bool is_usable;   /* shared, for reading and writing */
	bool is_private;  /* private, for reading and writing, not for execution */
	const char *path; /* in the line */
};

/* `line' ends without a newline. */
bool area_parse(const char *line, struct area *ret_area);

struct mapping {
	uint64_t filesystem, inode; /* st_dev and st_ino of the file */
	uint64_t offset;            /* of the first byte in it */
	int fd;                     /* open for reading and writing */
	bool is_owned;              /* otherwise it belongs to the program */
};

/*
 * Finds the single file that is mapped at all these bytes. -EINVAL: no file, or no
 * shared writable mapping; -ENOTSUP: the file is not in memory; -ENOENT: no
 * descriptor and no name leads to the file; -EACCES: the file can be opened only
 * for reading.
 */
int mapping_open(uint64_t address, uint64_t size, struct mapping *ret_mapping);

/* Sets which file `fd' is. */
int mapping_file(struct mapping *mapping);

void mapping_close(struct mapping *mapping);

/*
 * Makes the pages of a shared mapping resident, charged to this process. 0 or
 * -errno, never a signal.
 */
int mapping_populate(uint64_t address, uint64_t size);

#endif
