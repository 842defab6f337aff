/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SAME_FILE_H
#define SAME_FILE_H

/* Any thread. */

#include <sys/stat.h>

#include "base.h"

/* Whether both descriptors are of one file. */
static inline bool same_file(int fd, int other)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

#endif
