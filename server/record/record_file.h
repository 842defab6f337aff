/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_FILE_H
#define RECORD_FILE_H

/*
 * A record as a file, which another server replays (record_script.h): entries in the order of the
 * replay, each a message without its head, and the answers that must be the same again.
 *
 * Objects that have ended, but are kept, get IDs that no other object has, and end behind
 * everything else. So no order of ends has to be kept. The session's worker only.
 */

#include "record.h"
#include "record_notes.h"

#define RECORD_FILE_MAGIC 0x4453504du /* "MPSD" */

struct record_file_head {
	uint32_t magic;
	uint32_t n_images;
	uint64_t spec_hash;
	uint64_t size; /* of the file */
	uint32_t n_entries;
	uint32_t zero;
};

struct record_file_entry {
	uint32_t size; /* of this struct and what follows: a message without its head, answers */
	uint32_t answers_size; /* of that */
	uint32_t image;        /* + 1: the number of a descriptor; 0: none */
	uint16_t op;           /* 0: a struct record_note follows */
	uint16_t zero;
};

/* A file of memory, and the descriptors of the images that it numbers. */
struct record_saved {
	int fd;         /* owned */
	int *image_fds; /* the list is owned; the descriptors are valid as long as the record lives
			 */
	uint32_t n_images;
};

/* -ENOMEM, -EMFILE, or another -errno. */
int record_save(const struct record *record, const struct record_notes *notes,
	struct record_saved *ret_saved);
void record_saved_fini(struct record_saved *saved);

#endif
