/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

/*
 * Descriptors that this library keeps in the program's table. The program may close any of them,
 * and open files of its own under their numbers. So the library remembers which file is its own,
 * and looks before each use. Any thread.
 */

#include <stdatomic.h>

#include "base.h"

struct descriptor {
	int fd; /* negative: none */
	_Atomic uint64_t filesystem, inode;
};

/*
 * Takes `fd', the result of a system call, and returns its number, which is not that of standard
 * input, output or error: the program may have closed these and expect the next files that it opens
 * there. -errno.
 */
int descriptor_raise(int fd);

/* Remembers the file that is `fd' now. */
void descriptor_note(struct descriptor *descriptor, int fd);

/* Whether its number still is that file. */
bool descriptor_is_same(const struct descriptor *descriptor);

/*
 * Puts the file of `fd', which stays open, under its number. Other threads may use the descriptor
 * meanwhile. -EBADF: the number is another file by now. -errno.
 */
int descriptor_replace(struct descriptor *descriptor, int fd);

/* Closes it, unless the number is another file by now. */
void descriptor_close(struct descriptor *descriptor);

/*
 * Writes everything, with no effect on the program: no signal comes, and no thread is cancelled.
 * -EBADF: it is another file by now. -errno.
 */
int descriptor_write(const struct descriptor *descriptor, const void *bytes, size_t size);

/* Standard output or error (their numbers), as it was when the library was loaded. */
const struct descriptor *descriptor_standard(int fd);

/* Whether this process may have one more descriptor. */
bool descriptor_has_space(void);

#endif
