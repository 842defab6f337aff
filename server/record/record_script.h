/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_SCRIPT_H
#define RECORD_SCRIPT_H

/*
 * The file of a record (record_file.h), as another process has sent it: its messages, in the order
 * in which they make the objects again. The bytes are copied once, then checked as messages of a
 * client are; the dispatcher checks the rest. One thread.
 */

#include "record_notes.h"
#include "record_rules.h"

struct record_saved;
struct record_script;

/* One message, or a note. `head' is complete; its bytes are valid until the next step. */
struct record_step {
	const struct record_note *note; /* NULL: a message, as the next ones say */
	const struct message_head *head;
	const struct record_rule *rule;
	const uint8_t *answers;
	int image_fd; /* owned by the script; -1: none */
};

/* Takes the descriptors of images in any case. -EBADMSG: a broken file. -ENOMEM, -errno. */
int record_load(int fd, int *image_fds, uint32_t n_images, struct record_script **ret_script);
void record_script_free(struct record_script *script); /* NULL is fine */

/* The file again, for yet another process. */
int record_script_save(const struct record_script *script, struct record_saved *ret_saved);

/* False: that was the last one. */
bool record_script_next(struct record_script *script, struct record_step *ret_step);

/* The next step is the first one. */
void record_script_rewind(struct record_script *script);

/* Whether the answers are those of the step. `body' is the reply's. */
bool record_step_is_same(const struct record_step *step, const void *body);

#endif
