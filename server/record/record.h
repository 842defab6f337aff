/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORD_H
#define RECORD_H

/*
 * The record of a session: the messages from which another server makes its objects again. It is
 * memory of the server, which the session's account pays for; the client has no access. The marks
 * of the spec (record_rules.h) say what is kept:
 *
 * - A `make' is kept until the object has ended and no kept message names it. So a library lives
 *   in the record as long as a graph has a kernel of it, also after its client has unloaded it.
 * - A `change' is kept as long as its object. It takes the place of an earlier one with the same
 *   key; `fixed' fields keep their values.
 * - An `end' is not kept. What it has ended, but is kept, ends again after the replay.
 *
 * If there is no memory for it, the record is given up, and the session cannot move. The session's
 * worker only.
 */

#include "record_index.h"
#include "record_rules.h"

struct image;
struct record_object;

/* A message in the record, and what belongs to it. Its list is in the order of the replay. */
struct record_entry {
	uint32_t size;   /* bytes of the entry */
	uint32_t object; /* whose entry it is; RECORD_NO_OBJECT: of none */
	uint32_t next;   /* of the same object, as record::bytes has it; 0: the last one */
	uint16_t op;     /* 0: the entry was replaced by the next one */
	bool has_image;
	uint8_t n_uses;
	uint32_t uses[]; /* the other objects, in the order of the rule; then see record_part() */
};

#define RECORD_NO_OBJECT UINT32_MAX

struct record {
	struct account *account; /* not owned */
	uint8_t *bytes;          /* entries, from offset RECORD_START on */
	uint32_t size, size_max;
	uint32_t n_dead; /* bytes of entries that are not kept */
	struct record_object *objects;
	uint32_t n_objects, n_objects_max;
	uint32_t free_object; /* + 1: the first of the unused ones; 0: none */
	struct record_index index;
	const char *given_up; /* the reason; NULL: it is complete */

	/* Of the message that is executed. */
	struct image *image; /* which came with it, a reference */
	bool is_refused;     /* it has changed nothing */
	uint32_t n_refused;  /* such messages, so far */
};

#define RECORD_START 8u
/* The bound of the entries: 5 % of what an account may hold. */
#define RECORD_MAX (((uint32_t)ACCOUNT_MAX_MIB << 20) / 20)

void record_init(struct record *record, struct account *account);
void record_fini(struct record *record);

/* While a message is executed: its image, to which the record takes a reference. */
void record_note_image(struct record *record, struct image *image);

/* While a message is executed: it has no effect, although its result is CUDA_SUCCESS. */
void record_refuse(struct record *record);

/*
 * The message has been executed, with success; `answer' is the reply's body. Keeps what has to be
 * kept. For messages that leave nothing behind, it does nothing.
 */
void record_add(struct record *record, const struct message_head *head, const void *answer);

/* The message was not executed, or without success. */
void record_drop(struct record *record);

/* Why the record cannot be replayed; NULL: it can. */
const char *record_obstacle(const struct record *record);

/* Objects of that kind that are kept, for tests and figures. RECORD_KINDS: all. */
uint32_t record_count(const struct record *record, unsigned kind);

/* Bytes that the record takes of the account. */
uint64_t record_held(const struct record *record);

/* ---- for record_file.c */

struct record_object {
	uint32_t first, last; /* entries */
	uint32_t n_users;     /* entries of other objects that name it */
	uint32_t is_used : 1, is_ended : 1, is_ending : 1;
};

/* Parts of an entry: an image, the bytes of the message behind its head, the answers. */
struct record_part {
	struct image **image; /* NULL: none */
	uint8_t *message;
	uint32_t message_size;
	uint8_t *answers;
	uint32_t answers_size;
};

struct record_entry *record_entry(const struct record *record, uint32_t at);
struct record_part record_part(struct record_entry *entry);
uint8_t record_kind(const struct record *record, uint32_t object);

/* The number at that offset of the message. */
uint32_t record_number(const struct record_part *part, uint16_t at);

/* The key of the object with an ID in record::index. */
uint64_t record_id_key(uint8_t kind, uint32_t id);

/* The bytes of all answers of a rule, together. */
uint32_t record_answers_size(const struct record_rule *rule);

#endif
