/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: the contents of the ring. The first byte decides whether the client reports the right
 * number of bytes; if not, the next four are its number. In every case the session refuses or
 * serves the bytes, and frees everything at its end.
 */

#include <string.h>
#include <sys/socket.h>

#include "session_harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t tail;

	if (size < 1 + sizeof(tail))
		return 0;
	memcpy(&tail, data + 1, sizeof(tail));
	if (data[0] % 2 == 0)
		tail = (uint32_t)(size - 1) & ~(MESSAGE_ALIGN - 1);
	harness_open(false);
	harness_say_done();
	/* No image comes: the fuzzer does not test that wait. */
	shutdown(harness.client, SHUT_WR);
	harness_fill_ring(data + 1, size - 1, tail);
	harness_serve();
	harness_close();
	return 0;
}
