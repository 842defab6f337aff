/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FD_KIND_H
#define FD_KIND_H

/*
 * What lies behind a descriptor, found out without a request that a file
 * system could keep waiting: a FUSE file answers fstat() when the process that
 * serves it likes. Any thread.
 */

enum fd_kind {
	FD_OTHER,  /* to stat, map, read or close it may block */
	FD_MEMORY, /* memfd, tmpfs or hugetlbfs: none of that blocks */
	FD_DEVICE, /* as the driver exports memory: a character device, or a file of the
		      kernel's own without a type, like a dma-buf; to close it may block */
};

enum fd_kind fd_kind(int fd);

#endif
