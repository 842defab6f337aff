/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kinds of descriptors. Any thread.
 *
 * Invariant: every call here asks a file system only for what the kernel has in
 * memory.
 */

#include "fd_kind.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#endif

/* struct statx under another name: a C library before 2.28 has neither it nor the call. */
struct stat_reply {
	uint32_t mask, block_size;
	uint64_t attributes;
	uint32_t n_links, uid, gid;
	uint16_t mode, spare;
	uint64_t inode, size;
	uint64_t words[10]; /* blocks, times */
	uint32_t rdev[2], dev[2];
	uint64_t rest[15];
};

_Static_assert(offsetof(struct stat_reply, mode) == 28, "the kernel's struct statx");
_Static_assert(offsetof(struct stat_reply, dev) == 136, "the kernel's struct statx");
_Static_assert(sizeof(struct stat_reply) >= 256, "the kernel's struct statx");

#define EMPTY_PATH 0x1000 /* AT_EMPTY_PATH */
#define DONT_SYNC 0x4000  /* AT_STATX_DONT_SYNC */
#define TYPE 0x1u         /* STATX_TYPE */
#define INODE 0x100u      /* STATX_INO */
#define SIZE 0x200u       /* STATX_SIZE */

/* The file system does not make requests for it, even if what the kernel has is old. */
static int stat_in_memory(int fd, unsigned mask, struct stat_reply *ret)
{
	*ret = (struct stat_reply){0};
	return syscall(SYS_statx, fd, "", EMPTY_PATH | DONT_SYNC, mask, ret) < 0 ? -errno : 0;
}

enum fd_kind fd_kind(int fd)
{
	struct stat_reply reply;

	/* Only files in memory have seals, even those that cannot be sealed. */
	if (fcntl(fd, F_GET_SEALS) >= 0)
		return FD_MEMORY;
	if (stat_in_memory(fd, TYPE, &reply) < 0)
		return FD_OTHER;
	/* Files without a type belong to the kernel itself, like a dma-buf. */
	return S_ISCHR(reply.mode) || (reply.mode & S_IFMT) == 0 ? FD_DEVICE : FD_OTHER;
}

/*
 * The size of blocks is that of the pages only for hugetlbfs. Only hugetlbfs refuses to map a
 * file from an offset that is a multiple of the system's page size.
 */
static uint64_t page_of(int fd, uint64_t block)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map;

	if (block <= page)
		return page;
	map = mmap(NULL, page, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)page);
	if (map == MAP_FAILED)
		return block;
	munmap(map, page);
	return page;
}

int fd_facts(int fd, struct fd_facts *ret)
{
	struct stat_reply reply;
	int r = stat_in_memory(fd, INODE | SIZE, &reply);

	if (r < 0)
		return r;
	*ret = (struct fd_facts){
		.filesystem = makedev(reply.dev[0], reply.dev[1]),
		.inode = reply.inode,
		.size = reply.size,
		.page = page_of(fd, reply.block_size),
	};
	return 0;
}
