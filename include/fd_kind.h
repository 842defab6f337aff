/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FD_KIND_H
#define FD_KIND_H

/*
 * Finds out what a descriptor is, without a request that a file system could
 * delay: a FUSE file answers fstat() only when its serving process does. Any
 * thread.
 */

#include <stdint.h>
#include <sys/types.h>

enum fd_kind {
	FD_OTHER,  /* stat, map, read or close may block */
	FD_MEMORY, /* memfd, tmpfs or hugetlbfs: these calls do not block */
	FD_DEVICE, /* memory as the driver exports it: a character device, or a file of the
		      kernel without a type, like a dma-buf; close may block */
};

enum fd_kind fd_kind(int fd);

/* What the kernel has in memory about a file of the kind FD_MEMORY. */
struct fd_facts {
	dev_t filesystem;
	ino_t inode;
	uint64_t size; /* bytes */
	uint64_t page; /* bytes per page of the file: more than the system's page for huge pages */
};

/* 0 or -errno. */
int fd_facts(int fd, struct fd_facts *ret);

#endif
