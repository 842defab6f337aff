/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: frames on a socket, in pieces, as daemon, server and client read them. The
 * first byte is the size of the pieces.
 */

#include <string.h>
#include <sys/socket.h>

#include "frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void look_at(const struct frame_reader *reader)
{
	const struct frame_hello *hello = (const void *)reader->bytes;

	must(reader->head.zero == 0 && frame_size(reader->head.type) == reader->head.size);
	must(reader->n_read == reader->head.size && reader->n_fds == reader->head.n_fds);
	if (reader->head.type == FRAME_HELLO &&
		frame_text_ok(hello->group.value, sizeof(hello->group.value)))
		must(strlen(hello->group.value) < sizeof(hello->group.value));
}

/* Reads what has arrived; false: the connection would be closed. */
static bool read_frames(struct frame_reader *reader, int sock)
{
	int r;

	while ((r = frame_read(reader, sock)) > 0) {
		look_at(reader);
		frame_reader_reset(reader);
	}
	return r == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	size_t piece = size > 0 ? data[0] * 8u + 1 : 1;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return 0;
	frame_reader_init(&reader, frame_close_fd);
	for (size_t at = 1; at < size; at += piece) {
		size_t n = MIN(piece, size - at);

		must(send(ends[0], data + at, n, MSG_NOSIGNAL) == (ssize_t)n);
		if (!read_frames(&reader, ends[1]))
			break;
	}
	close(ends[0]);
	close(ends[1]);
	return 0;
}
