/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Files of evicted bytes. A worker, or the thread of server/arrival.c.
 *
 * Invariant: a copy under way has all slots of its chain.
 */

#include "store_file.h"

#include "server/util/memory_file.h"

int store_file_save(const struct stored *stored, uint64_t size)
{
	struct store_copy copy = host_store_copy(stored, 0, size, false);
	_cleanup_close_ int fd = memory_file_new("mps-evicted");
	const void *bytes;
	uint64_t at = 0, n;
	int r = fd < 0 ? fd : 0;

	for (; r == 0 && (bytes = host_store_next(&copy, &n)); at += n)
		r = memory_file_write(fd, bytes, n, at);
	return r == 0 ? TAKE_FD(fd) : r;
}

int store_file_load(struct account *account, int fd, uint64_t size, struct stored *ret_stored)
{
	struct stored stored;
	struct store_copy copy;
	uint64_t at = 0, n;
	void *bytes;
	int r = 0;

	if (!memory_file_ok(fd, size))
		return -EBADMSG;
	if (!host_store_take_over(account, size, &stored))
		return -ENOMEM;
	copy = host_store_copy(&stored, 0, size, true);
	for (; r == 0 && (bytes = host_store_next(&copy, &n)); at += n)
		r = memory_file_read(fd, bytes, n, at);
	if (r == 0)
		*ret_stored = stored;
	else
		host_store_give(&stored);
	return r;
}
