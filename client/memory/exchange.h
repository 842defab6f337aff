/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

/*
 * Exchanges private pages of the program for pages of a file in memory, which the
 * server can pin, at the same address and with the same bytes. Any thread.
 *
 * All other threads are stopped meanwhile (stop_threads.h), so no write is lost. The
 * private mappings are kept, without pages, at other addresses, and come back with
 * their properties. A child of fork() gets a private copy of the bytes.
 */

#include "client/util/mapping.h"

struct exchange;

/*
 * Exchanges the pages of [address, address + size). `ret_mapping' is their file, which
 * the caller closes. -errno: nothing has changed, and exchange_why() says why.
 */
int exchange_new(uint64_t address, uint64_t size, struct exchange **ret_exchange,
	struct mapping *ret_mapping);

/*
 * Exchanges the pages back as far as they are still mapped. On failure they stay as they
 * are, which the log says. Frees `exchange', which may be NULL.
 */
void exchange_end(struct exchange *exchange);

/* A sentence without an end, which stays valid. */
const char *exchange_why(int r);

#endif
