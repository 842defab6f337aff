/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_H
#define RECORD_H

/*
 * The daemon's record of its servers: a file in the pipe directory that the
 * daemon alone writes. The next daemon adopts the servers that stand in it, and
 * no other process, whatever that says of itself. Loop thread.
 */

#include <sys/types.h>

#include "base.h"

struct record {
	pid_t pid;
	uid_t uid;
	uint64_t start_time; /* process_start_time() */
	bool is_isolated;    /* for that program of that user alone */
	uint32_t program;
	uid_t client_uid;
};

/* Replaces the file as a whole; without servers there is none. 0 or -errno. */
int record_store(int directory, const struct record *records, size_t n);

/*
 * What the daemon before has left, at most `n_max'. How many, or -errno; 0 also
 * where the system has been started since, or where the file is not ours.
 */
int record_load(int directory, struct record *records, size_t n_max);

#endif
