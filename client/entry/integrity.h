/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INTEGRITY_H
#define INTEGRITY_H

/*
 * What the runtime asks of the driver once at its start, to know that it talks
 * to a whole driver: a digest over facts that both sides know. Without the
 * right answer it refuses every call with 103.
 */

#include "client/util/api.h"
#include "client/util/md2.h"

/* The addresses that go into the digest. */
struct integrity_places {
	const void *interface_table; /* the table of 6bd5fb6c */
	const void *check_table;     /* the table of d4082055 */
	const void *check_function;  /* its slot 1 */
};

/* Fills `ret_digest' for the calling thread. What a driver call returns, if one fails. */
CUresult integrity_answer(const struct integrity_places *places, uint32_t version,
	uint64_t unix_seconds, uint8_t ret_digest[MD2_BYTES]);

#endif
