/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INTEGRITY_H
#define INTEGRITY_H

/*
 * The runtime asks the driver for this digest once, at its start, to verify that it
 * has a complete driver. The digest covers facts that both sides know. After a
 * wrong answer the runtime fails every call with 103.
 */

#include "client/util/api.h"
#include "client/util/md2.h"

/* The addresses that go into the digest. */
struct integrity_addresses {
	const void *interface_table; /* the table of 6bd5fb6c */
	const void *check_table;     /* the table of d4082055 */
	const void *check_function;  /* its slot 1 */
};

/*
 * Fills `ret_digest' for the calling thread. On failure returns the result of the
 * driver call that failed.
 */
CUresult integrity_answer(const struct integrity_addresses *addresses, uint32_t version,
	uint64_t unix_seconds, uint8_t ret_digest[MD2_BYTES]);

#endif
