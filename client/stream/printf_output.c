/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Output of kernels, read from the server. Any thread of the application.
 *
 * Invariant: one thread at a time writes the output, in the order in which the
 * server returns it.
 */

#include "printf_output.h"

#include <stdatomic.h>
#include <stdio.h>

#include "lock.h"
#include "client/transport/server_link.h"
#include "send_stream.h"

#define TEXT_PIECE 12288

static struct lock lock = LOCK_INIT(PRINTF_OUTPUT);
static _Atomic uint32_t is_expected; /* kernels that may print have been launched */
static _Atomic uint32_t n_taken;     /* bytes, as page->n_text counts them */

void printf_output_expect(void)
{
	atomic_store_explicit(&is_expected, 1, memory_order_release);
}

/* Under the lock. */
static void printf_output_take(void)
{
	uint32_t flush = atomic_exchange_explicit(&is_expected, 0, memory_order_acq_rel);
	uint32_t is_more = 1, is_pending = 0;

	while (is_more) {
		uint8_t bytes[TEXT_PIECE];
		uint32_t n = 0;

		if (send_printf_take(flush, &is_more, &is_pending, bytes, sizeof(bytes), &n) !=
			CUDA_SUCCESS)
			return;
		flush = 0;
		fwrite(bytes, 1, n, stdout);
		atomic_fetch_add_explicit(&n_taken, n, memory_order_release);
	}
	fflush(stdout);
	/* Other kernels of the program are still running. */
	if (is_pending)
		printf_output_expect();
}

void printf_output_synced(void)
{
	if (likely(!atomic_load_explicit(&is_expected, memory_order_acquire) &&
		    shm_load32(&server.page->n_text) ==
			    atomic_load_explicit(&n_taken, memory_order_acquire)))
		return;
	lock_hold(&lock);
	printf_output_take();
}
