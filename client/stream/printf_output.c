/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Output of kernels, read from the server. Any thread of the application.
 *
 * Invariant: one thread at a time writes the output, in the order in which the
 * server returns it.
 */

#include <pthread.h>
#include <stdio.h>

#include "client/transport/call.h"
#include "client/transport/server_link.h"
#include "send.h"
#include "printf_output.h"

#define TEXT_PIECE 12288

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t is_expected; /* atomic: kernels that may print have been launched */
static uint32_t n_taken;     /* atomic: bytes, as page->n_text counts them */

void printf_output_expect(void)
{
	__atomic_store_n(&is_expected, 1, __ATOMIC_RELEASE);
}

/* Under the lock. */
static void printf_output_take(void)
{
	uint32_t flush = __atomic_exchange_n(&is_expected, 0, __ATOMIC_ACQ_REL);
	uint32_t is_more = 1, is_pending = 0;

	while (is_more) {
		uint8_t bytes[TEXT_PIECE];
		uint32_t n = 0;

		if (send_text_take(flush, &is_more, &is_pending, bytes, sizeof(bytes), &n) !=
			CUDA_SUCCESS)
			return;
		flush = 0;
		fwrite(bytes, 1, n, stdout);
		__atomic_fetch_add(&n_taken, n, __ATOMIC_RELEASE);
	}
	fflush(stdout);
	/* Other kernels of the program are still running. */
	if (is_pending)
		printf_output_expect();
}

void printf_output_synced(void)
{
	if (likely(!__atomic_load_n(&is_expected, __ATOMIC_ACQUIRE) &&
		    shm_load32(&server.page->n_text) ==
			    __atomic_load_n(&n_taken, __ATOMIC_ACQUIRE)))
		return;
	pthread_mutex_lock(&lock);
	printf_output_take();
	pthread_mutex_unlock(&lock);
}
