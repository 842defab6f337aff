/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The receiver process, which has one thread.
 *
 * Invariant: before this process closes a descriptor of unknown kind, it has replied, and it
 * does nothing afterwards. The kernel closes the descriptor as the process ends.
 */

#include <sys/prctl.h>

#include "frame.h"
#include "received.h"
#include "receiver.h"

/* The server replaces a receiver that it has not heard of for much less. */
#define SEND_MS 60000

/* Whether this process can go on: it has only descriptors whose close does not block. */
static bool serve(int sock, int connection, size_t size)
{
	struct frame_received reply = {0};
	struct received received;
	unsigned n_fds;
	int r;

	r = received_read(connection, reply.bytes, MIN(size, sizeof(reply.bytes)), &received);
	n_fds = r == 0 ? received.n_fds : 0;
	frame_init(&reply, FRAME_RECEIVED, n_fds);
	reply.result = r;
	reply.n_bytes = received.n_bytes;
	reply.kind = (uint32_t)received.kind;
	if (frame_send(sock, &reply, received.fds, SEND_MS) < 0)
		return false;
	if (received.n_fds > n_fds)
		return false;
	close(connection);
	if (n_fds > 0)
		close(received.fds[0]);
	return true;
}

int receiver_run(int sock)
{
	static struct frame_reader reader;
	bool is_usable = true;
	int r = 0;

	prctl(PR_SET_NAME, "mps-receiver");
	/* Processes of the same user may neither debug this one nor take its descriptors. */
	prctl(PR_SET_DUMPABLE, 0);
	while (is_usable) {
		const struct frame_receive *request = (const void *)reader.bytes;

		frame_reader_init(&reader, frame_close_fd);
		do
			r = frame_read_wait(&reader, sock, SEND_MS);
		while (r == -ETIMEDOUT);
		if (r < 0 || reader.head.type != FRAME_RECEIVE)
			break;
		is_usable = serve(sock, frame_take_fd(&reader, 0), request->size);
	}
	/* Without handlers of exit: they would run while descriptors are open. */
	_exit(r == -ECONNRESET || !is_usable ? 0 : 1);
}
