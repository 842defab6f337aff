/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAPPING_H
#define MAPPING_H

/*
 * What of the program's own lies at an address: the file of a shared mapping,
 * if it is one of memory alone. Any thread.
 */

#include "base.h"

struct mapping {
	uint64_t filesystem, inode; /* st_dev and st_ino of the file */
	uint64_t offset;            /* of the first byte in it */
	int fd;                     /* open for reading and writing */
	bool is_owned;              /* else it is the program's */
};

/*
 * The one file that is mapped at all these bytes. -EINVAL: there is none, or
 * none that is shared and may be written; -ENOTSUP: it does not lie in memory;
 * -ENOENT: nothing leads to it; -EACCES: only what does not let us write.
 */
int mapping_open(uint64_t address, uint64_t size, struct mapping *ret_mapping);

void mapping_close(struct mapping *mapping);

/* Makes the pages of a shared mapping present, charged to this process. 0 or -errno, no signal. */
int mapping_populate(uint64_t address, uint64_t size);

#endif
