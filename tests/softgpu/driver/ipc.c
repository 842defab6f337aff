/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that another process opens, as descriptors. Runs in any thread.
 */

#include "ipc.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base.h"

#define TICKET_MAGIC UINT64_C(0x6370695f74666f73)

int ipc_memfd_new(uint64_t size)
{
	_cleanup_close_ int fd = memfd_create("softgpu-ipc", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int ipc_ticket_fill(
	enum ipc_kind kind, int fd, uint64_t size, uint32_t device, struct ipc_ticket *ret_ticket)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_ticket = (struct ipc_ticket){.magic = TICKET_MAGIC,
		.kind = kind,
		.pid = getpid(),
		.fd = fd,
		.device = device,
		.dev = st.st_dev,
		.inode = st.st_ino,
		.size = size};
	return 0;
}

int ipc_ticket_open(const struct ipc_ticket *ticket, enum ipc_kind kind)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	char path[64];

	if (ticket->magic != TICKET_MAGIC || ticket->kind != kind)
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ticket->pid, ticket->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != ticket->dev || st.st_ino != ticket->inode ||
		(uint64_t)st.st_size < ticket->size)
		return -ENOENT;
	return TAKE_FD(fd);
}
