/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kinds of descriptors. Any thread.
 *
 * Invariant: every call here asks a file system only for what the kernel has in
 * memory.
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base.h"
#include "fd_kind.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#endif

/* struct statx under another name: a C library before 2.28 has neither it nor the call. */
struct stat_reply {
	uint32_t mask, block_size;
	uint64_t attributes;
	uint32_t n_links, uid, gid;
	uint16_t mode, spare;
	uint64_t words[12]; /* inode, sizes, times */
	uint64_t rest[17];
};

_Static_assert(offsetof(struct stat_reply, mode) == 28, "the kernel's struct statx");
_Static_assert(sizeof(struct stat_reply) >= 256, "the kernel's struct statx");

#define EMPTY_PATH 0x1000 /* AT_EMPTY_PATH */
#define DONT_SYNC 0x4000  /* AT_STATX_DONT_SYNC */
#define TYPE_ONLY 0x1u    /* STATX_TYPE */

enum fd_kind fd_kind(int fd)
{
	struct stat_reply reply = {0};

	/* Only files in memory have seals, even those that cannot be sealed. */
	if (fcntl(fd, F_GET_SEALS) >= 0)
		return FD_MEMORY;
	if (syscall(SYS_statx, fd, "", EMPTY_PATH | DONT_SYNC, TYPE_ONLY, &reply) < 0)
		return FD_OTHER;
	/* Files without a type belong to the kernel itself, like a dma-buf. */
	return S_ISCHR(reply.mode) || (reply.mode & S_IFMT) == 0 ? FD_DEVICE : FD_OTHER;
}
