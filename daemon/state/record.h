/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_H
#define RECORD_H

/*
 * The daemon's record of its servers and of its state (state_text.h): a file in
 * the pipe directory that only the daemon writes. The next daemon adopts the
 * servers in it, and no other process, whatever that process claims. Loop
 * thread.
 *
 * The lines of the state follow those of the servers: a daemon of an earlier
 * build reads the servers and ignores the rest.
 */

#include <sys/types.h>

#include "server_name.h"

struct record {
	pid_t pid;
	uid_t uid;
	uint64_t start_time; /* process_start_time() */
	bool is_isolated;    /* serves only that program of that user */
	uint32_t program;
	uid_t client_uid;
	char name[SERVER_NAME_MAX]; /* of a named server; else "" */
};

/* Replaces the whole file, or removes it if there is nothing to record. 0 or -errno. */
int record_store(int directory, const struct record *records, size_t n, const char *state);

/*
 * Loads the record of the previous daemon, at most `n_max' servers. Returns
 * their number, or -errno; 0 also after a reboot. The caller frees the state;
 * NULL: the record has none.
 */
int record_load(int directory, struct record *records, size_t n_max, char **ret_state);

/* Removes the space that record_store() reserves for the next record: the daemon ends. */
void record_release(int directory);

#endif
