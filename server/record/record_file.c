/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes a record into a file of memory. A worker.
 *
 * Invariant: an entry names only objects that entries before it make, because kinds are written in
 * the order of their uses, and objects of a kind in the order in which they were made.
 */

#include "record_file.h"

#include <string.h>
#include <sys/mman.h>

#include "spec_hash.h"
#include "server/util/image.h"

#define KEY_OBJECT 1u
#define KEY_PART 2u

/* A file that grows in memory, and the new IDs of ended objects. */
struct writing {
	const struct record *record;
	uint8_t *bytes;
	size_t size, size_max;
	uint32_t n_entries;
	struct record_index new_ids;
	uint32_t next_id[RECORD_KINDS]; /* + 1; 0: none was given yet */
	struct record_index images;     /* by address */
	const struct record_notes *notes;
	struct record_saved *saved;
};

static void writing_fini(struct writing *writing)
{
	free(writing->bytes);
	record_index_fini(&writing->new_ids);
	record_index_fini(&writing->images);
}

/* ---- new IDs */

static uint64_t new_id_key(uint32_t what, uint32_t object, uint32_t id)
{
	return (uint64_t)object << 40 | (uint64_t)what << 32 | id;
}

static int give_id(struct writing *writing, uint64_t key, const struct record_rule *rule)
{
	uint32_t *next = &writing->next_id[rule->kind], ignored;

	if (*next == 0)
		*next = rule->id_max + 1;
	while (*next > 0 && record_index_get(&writing->record->index,
				    record_id_key(rule->kind, *next - 1), &ignored))
		(*next)--;
	if (*next == 0)
		return -ENOSPC;
	return record_index_put(&writing->new_ids, key, --*next) ? 0 : -ENOMEM;
}

/* Gives an ended object and its parts IDs that nothing else has. */
static int give_ids(struct writing *writing, uint32_t number)
{
	const struct record *record = writing->record;
	struct record_entry *entry;
	int r = 0;

	for (uint32_t at = record->objects[number].first; at != 0 && r == 0; at = entry->next) {
		const struct record_rule *rule;
		struct record_part part;

		entry = record_entry(record, at);
		rule = record_rule(entry->op);
		if (!rule || rule->mark != RECORD_MAKE)
			continue;
		part = record_part(entry);
		r = give_id(writing,
			rule->kind == rule->owner
				? new_id_key(KEY_OBJECT, number, 0)
				: new_id_key(KEY_PART, number, record_number(&part, rule->id_at)),
			rule);
	}
	return r;
}

/* Replaces the ID of that kind in a message, if its object, or the object of the part, has ended.
 */
static void rename_id(const struct writing *writing, uint32_t object, uint8_t kind, uint8_t *id)
{
	bool is_part = record_kind(writing->record, object) != kind;
	uint32_t old, new;

	memcpy(&old, id, sizeof(old));
	if (record_index_get(&writing->new_ids,
		    new_id_key(is_part ? KEY_PART : KEY_OBJECT, object, is_part ? old : 0), &new))
		memcpy(id, &new, sizeof(new));
}

static void rename_ids(
	const struct writing *writing, const struct record_entry *entry, uint8_t *message)
{
	const struct record_rule *rule = record_rule(entry->op);
	const size_t head = sizeof(struct message_head);

	rename_id(writing, entry->object, rule->kind, message + rule->id_at - head);
	for (unsigned i = 0; i < rule->n_uses; i++) {
		uint8_t *id = message + rule->uses[i].at - head;

		if (entry->uses[i] != RECORD_NO_OBJECT)
			rename_id(writing, entry->uses[i], rule->uses[i].kind, id);
		else if (rule->owner != rule->kind && rule->uses[i].kind == rule->owner)
			rename_id(writing, entry->object, rule->owner, id);
	}
}

/* ---- bytes */

static uint8_t *take_bytes(struct writing *writing, size_t size)
{
	uint8_t *at;

	if (writing->size_max - writing->size < size) {
		size_t max = writing->size_max + MAX(writing->size_max / 2, size + 4096);
		uint8_t *grown = realloc(writing->bytes, max);

		if (!grown)
			return NULL;
		writing->bytes = grown;
		writing->size_max = max;
	}
	at = writing->bytes + writing->size;
	memset(at, 0, size);
	writing->size += size;
	return at;
}

/* `ret_number' + 1 is the number of the descriptor; 0: without an image. */
static int number_image(struct writing *writing, const struct image *image, uint32_t *ret_number)
{
	struct record_saved *saved = writing->saved;
	uint64_t key = (uintptr_t)image;
	int *grown;

	*ret_number = 0;
	if (!image)
		return 0;
	if (image->fd < 0)
		return -EMFILE;
	if (!record_index_get(&writing->images, key, ret_number)) {
		grown = reallocarray(saved->image_fds, saved->n_images + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		saved->image_fds = grown;
		grown[saved->n_images] = image->fd;
		*ret_number = saved->n_images++;
		if (!record_index_put(&writing->images, key, *ret_number))
			return -ENOMEM;
	}
	++*ret_number;
	return 0;
}

static int write_entry(struct writing *writing, struct record_entry *entry)
{
	struct record_part part = record_part(entry);
	struct record_file_entry head = {
		.size = (uint32_t)sizeof(head) + part.message_size + part.answers_size,
		.answers_size = part.answers_size,
		.op = entry->op,
	};
	int r = number_image(writing, part.image ? *part.image : NULL, &head.image);
	uint8_t *bytes = r == 0 ? take_bytes(writing, head.size) : NULL;

	if (!bytes)
		return r < 0 ? r : -ENOMEM;
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + sizeof(head), part.message, part.message_size);
	memcpy(bytes + sizeof(head) + part.message_size, part.answers, part.answers_size);
	rename_ids(writing, entry, bytes + sizeof(head));
	writing->n_entries++;
	return 0;
}

/* Of the object whose `make' the entry is, if it has not ended. */
static int write_notes(struct writing *writing, struct record_entry *entry)
{
	const struct record_rule *rule = record_rule(entry->op);
	struct record_part part = record_part(entry);
	const struct record_note *note;
	uint32_t at = 0;

	if (writing->record->objects[entry->object].is_ended)
		return 0;
	while ((note = record_notes_next(
			writing->notes, rule->kind, record_number(&part, rule->id_at), &at))) {
		struct record_file_entry head = {.size = sizeof(head) + sizeof(*note)};
		uint8_t *bytes = take_bytes(writing, head.size);

		if (!bytes)
			return -ENOMEM;
		memcpy(bytes, &head, sizeof(head));
		memcpy(bytes + sizeof(head), note, sizeof(*note));
		writing->n_entries++;
	}
	return 0;
}

static int write_object(struct writing *writing, uint32_t number)
{
	const struct record_object *object = &writing->record->objects[number];
	struct record_entry *entry;
	int r = 0;

	for (uint32_t at = object->first; at != 0 && r == 0; at = entry->next) {
		entry = record_entry(writing->record, at);
		if (entry->op != 0)
			r = write_entry(writing, entry);
		if (r == 0 && at == object->first)
			r = write_notes(writing, entry);
	}
	return r;
}

static int write_end(struct writing *writing, uint32_t number)
{
	const uint8_t kind = record_kind(writing->record, number);
	struct record_file_entry head = {
		.size = sizeof(head) + 2 * sizeof(uint32_t),
		.op = record_end_op(kind),
	};
	uint8_t *bytes = take_bytes(writing, head.size);
	uint32_t id = 0;

	if (!bytes)
		return -ENOMEM;
	(void)record_index_get(&writing->new_ids, new_id_key(KEY_OBJECT, number, 0), &id);
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + sizeof(head), &id, sizeof(id));
	writing->n_entries++;
	return 0;
}

/* ---- the whole */

typedef int (*object_writer)(struct writing *writing, uint32_t number);

/* Calls it for the objects of a kind in the order in which they were made. */
static int each_object(struct writing *writing, unsigned kind, bool only_ended, object_writer write)
{
	const struct record *record = writing->record;
	const struct record_entry *entry;
	int r = 0;

	for (uint32_t at = RECORD_START; at < record->size && r == 0; at += entry->size) {
		const struct record_object *object;

		entry = record_entry(record, at);
		if (entry->object == RECORD_NO_OBJECT)
			continue;
		object = &record->objects[entry->object];
		if (object->first == at && record_kind(record, entry->object) == kind &&
			(object->is_ended || !only_ended))
			r = write(writing, entry->object);
	}
	return r;
}

static int write_all(struct writing *writing)
{
	int r = take_bytes(writing, sizeof(struct record_file_head)) ? 0 : -ENOMEM;

	for (unsigned i = 0; i < RECORD_KINDS && r == 0; i++)
		r = each_object(writing, i, true, give_ids);
	for (unsigned i = 0; i < RECORD_KINDS && r == 0; i++)
		r = each_object(writing, record_order[i], false, write_object);
	for (unsigned i = RECORD_KINDS; i-- > 0 && r == 0;)
		r = each_object(writing, record_order[i], true, write_end);
	return r;
}

static int write_file(const struct writing *writing, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("mps-record", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < writing->size;) {
		ssize_t n = write(fd, writing->bytes + at, writing->size - at);

		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int record_save(const struct record *record, const struct record_notes *notes,
	struct record_saved *ret_saved)
{
	struct record_saved saved = {.fd = -EBADF};
	struct writing writing = {.record = record, .saved = &saved, .notes = notes};
	int r = notes->is_short ? -ENOMEM : write_all(&writing);

	if (r == 0) {
		struct record_file_head head = {RECORD_FILE_MAGIC, saved.n_images, SPEC_HASH,
			writing.size, writing.n_entries, 0};

		memcpy(writing.bytes, &head, sizeof(head));
		r = write_file(&writing, &saved.fd);
	}
	writing_fini(&writing);
	if (r < 0)
		record_saved_fini(&saved);
	*ret_saved = saved;
	return r;
}

void record_saved_fini(struct record_saved *saved)
{
	closep(&saved->fd);
	free(saved->image_fds);
	*saved = (struct record_saved){.fd = -EBADF};
}
