/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILE_FACTS_H
#define FILE_FACTS_H

/*
 * What a file system says of a client's file. A memory file may lie on an overlay with a
 * FUSE layer, whose process may answer late or never. So another thread asks, and the caller
 * waits for a bounded time. A worker.
 */

#include <sys/types.h>

#include "account.h"
#include "base.h"

struct file_facts {
	dev_t filesystem;
	ino_t inode;
	uint64_t size;
	uint64_t page; /* bytes per page of the file: more than the system's page for huge pages */
};

/*
 * 0, -ETIMEDOUT or -errno. The caller keeps `fd'. A question without an answer stays charged
 * to the account, with its thread.
 */
int file_facts_get(struct account *account, int fd, struct file_facts *ret_facts);

#endif
