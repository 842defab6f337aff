/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The receiver without its process: tests and fuzzers send only descriptors that close at once.
 */

#include "server/session/received.h"
#include "server/session/receiver.h"

int receiver_read(
	int connection, uid_t uid, void *bytes, size_t size, enum fd_kind *ret_kind, int *ret_fd)
{
	struct received received;
	int r = received_read(connection, bytes, size, &received);
	uint32_t n_taken = r == 0 ? received.n_fds : 0;

	(void)uid;
	for (uint32_t i = n_taken; i < received.n_fds; i++)
		close(received.fds[i]);
	*ret_fd = n_taken > 0 ? received.fds[0] : -EBADF;
	*ret_kind = received.kind;
	return r < 0 ? r : (int)received.n_bytes;
}
