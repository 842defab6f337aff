/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_H
#define IPC_H

/*
 * Memory that another process on the software GPU opens: a memfd, which the other
 * process finds as a descriptor of this one. Any thread.
 */

#include <stdint.h>
#include <sys/types.h>

enum ipc_kind {
	IPC_MEMORY = 1,
	IPC_EVENT,
};

/* The content of a CUipcMemHandle or CUipcEventHandle; the rest of its 64 bytes is 0. */
struct ipc_ticket {
	uint64_t magic;
	uint32_t kind;
	int32_t pid;
	int32_t fd;
	uint32_t device;     /* of the machine */
	uint64_t dev, inode; /* of the memfd: a descriptor may have been closed and made again */
	uint64_t size;
};

/* A memfd of `size' bytes; the caller closes it. Negative errno. */
int ipc_memfd_new(uint64_t size);
/* Names a memfd of this process. */
int ipc_ticket_fill(
	enum ipc_kind kind, int fd, uint64_t size, uint32_t device, struct ipc_ticket *ret_ticket);
/* The memfd behind a ticket; the caller closes it. -ENOENT: there is none any more. */
int ipc_ticket_open(const struct ipc_ticket *ticket, enum ipc_kind kind);

#endif
