/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILE_FACTS_H
#define FILE_FACTS_H

/*
 * What a file system says of a client's file. A file of memory may lie on an
 * overlay whose other layer is a FUSE file system, and that answers when its
 * process likes: so another thread asks, and the caller waits for it in bounded
 * time. A worker.
 */

#include <sys/types.h>

#include "account.h"
#include "base.h"

struct file_facts {
	dev_t filesystem;
	ino_t inode;
	uint64_t size;
	uint64_t page; /* bytes of a page of the file: more than the system's for huge pages */
};

/*
 * 0, -ETIMEDOUT or -errno. The caller keeps `fd'. A question that is never answered
 * stays charged to the account, with its thread.
 */
int file_facts_get(struct account *account, int fd, struct file_facts *ret_facts);

#endif
