/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: what the ring holds. The first byte says whether the client tells
 * the truth about how much it placed; if not, the next four are what it tells.
 * Whatever it is, the session refuses or serves it, and gives everything back
 * at its end.
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
	/* No image comes: that wait is not what is looked for. */
	shutdown(harness.client, SHUT_WR);
	harness_fill_ring(data + 1, size - 1, tail);
	harness_serve();
	harness_close();
	return 0;
}
