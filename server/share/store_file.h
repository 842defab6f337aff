/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FILE_H
#define STORE_FILE_H

/*
 * Evicted bytes on their way to another server, in a file of memory for each chain of the store.
 * So large pages, which make the store fast, need no descriptor.
 */

#include "host_store.h"

/* A file with a copy of the bytes: a descriptor, or -errno. */
int store_file_save(const struct stored *stored, uint64_t size);

/* Stores the bytes of a file, for which the account pays. With a GPU's context. 0 or -errno. */
int store_file_load(struct account *account, int fd, uint64_t size, struct stored *ret_stored);

#endif
