/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is kept of a session's messages, by object. A worker.
 *
 * Invariant: the entries of an object begin with its `make'. The first entries lie in the order in
 * which the objects were made. `n_users' of an object counts the entries of others that name it, so
 * an object is kept as long as one of them is.
 */

#include "record.h"

#include <string.h>

#include "server/util/image.h"

#define HEAD_SIZE sizeof(struct message_head)
#define OBJECTS_MAX_BITS 24
#define GROUP_ID 0xffu
#define COMPACT_MIN 4096u
#define FIXED_MAX 64u

/* What is about to be kept. */
struct news {
	const struct record_rule *rule;
	const struct message_head *head;
	const uint8_t *answer;
	uint32_t object;
	uint32_t uses[RECORD_USES_MAX];
	uint8_t fixed[FIXED_MAX]; /* of the entry that it replaces */
	bool has_fixed;
};

/* ---- numbers and parts */

uint64_t record_id_key(uint8_t kind, uint32_t id)
{
	return (uint64_t)kind << 40 | (uint64_t)GROUP_ID << 32 | id;
}

static uint32_t number_at(const void *bytes, size_t at)
{
	uint32_t number;

	memcpy(&number, (const uint8_t *)bytes + at, sizeof(number));
	return number;
}

uint32_t record_number(const struct record_part *part, uint16_t at)
{
	return number_at(part->message, at - HEAD_SIZE);
}

uint32_t record_answers_size(const struct record_rule *rule)
{
	uint32_t size = 0;

	for (unsigned i = 0; i < rule->n_same; i++)
		size += rule->same[i].size;
	return ALIGN_UP(size, 8u);
}

struct record_entry *record_entry(const struct record *record, uint32_t at)
{
	return (void *)(record->bytes + at);
}

static uint32_t body_at(uint8_t n_uses, bool has_image)
{
	uint32_t at = (uint32_t)(sizeof(struct record_entry) + n_uses * sizeof(uint32_t));

	return ALIGN_UP(at, 8u) + (has_image ? (uint32_t)sizeof(struct image *) : 0);
}

struct record_part record_part(struct record_entry *entry)
{
	uint32_t at = body_at(entry->n_uses, entry->has_image);
	uint32_t answers_size = record_answers_size(record_rule(entry->op));
	uint8_t *bytes = (uint8_t *)entry;

	return (struct record_part){
		.image = entry->has_image ? (void *)(bytes + at - sizeof(struct image *)) : NULL,
		.message = bytes + at,
		.message_size = entry->size - at - answers_size,
		.answers = bytes + entry->size - answers_size,
		.answers_size = answers_size,
	};
}

/* NULL: none. */
static struct image *image_of(struct record_entry *entry)
{
	struct record_part part = record_part(entry);

	return part.image ? *part.image : NULL;
}

uint8_t record_kind(const struct record *record, uint32_t object)
{
	return record_rule(record_entry(record, record->objects[object].first)->op)->owner;
}

/* The key of a change of that object. */
static uint64_t change_key(const struct record_rule *rule, uint32_t object, const uint8_t *message)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < rule->n_keys; i++)
		value = value << rule->keys[i].bits |
			number_at(message, rule->keys[i].at - HEAD_SIZE);
	return (uint64_t)object << 40 | (uint64_t)rule->group << 32 | (uint32_t)value;
}

static uint32_t find(const struct record *record, uint8_t kind, uint32_t id)
{
	uint32_t object;

	return record_index_get(&record->index, record_id_key(kind, id), &object)
		       ? object
		       : RECORD_NO_OBJECT;
}

/* ---- objects that nothing needs any more */

/* Takes an entry out of the record, and adds the objects that were kept for it to `*ends'. */
static void entry_end(struct record *record, uint32_t at, uint32_t *ends)
{
	struct record_entry *entry = record_entry(record, at);

	if (entry->op != 0) {
		const struct record_rule *rule = record_rule(entry->op);
		struct record_part part = record_part(entry);

		if (rule->group > 0)
			record_index_remove(
				&record->index, change_key(rule, entry->object, part.message));
		if (part.image)
			image_unref(*part.image);
		record->n_dead += entry->size;
	}
	for (unsigned i = 0; i < entry->n_uses; i++) {
		struct record_object *used;

		if (entry->uses[i] == RECORD_NO_OBJECT)
			continue;
		used = &record->objects[entry->uses[i]];
		if (--used->n_users > 0 || !used->is_ended || used->is_ending)
			continue;
		used->is_ending = true;
		used->last = *ends;
		*ends = entry->uses[i];
	}
	entry->n_uses = 0;
	entry->object = RECORD_NO_OBJECT;
}

/* `ends' is a list of objects by `last'. */
static void objects_end(struct record *record, uint32_t ends)
{
	while (ends != RECORD_NO_OBJECT) {
		struct record_object *object = &record->objects[ends];
		uint32_t number = ends, at = object->first, next;

		ends = object->last;
		for (; at != 0; at = next) {
			next = record_entry(record, at)->next;
			entry_end(record, at, &ends);
		}
		*object = (struct record_object){.first = record->free_object};
		record->free_object = number + 1;
	}
}

/* ---- space */

/* The record is not complete, for that reason: nothing is kept from here on. */
static void record_give_up(struct record *record, const char *why)
{
	record_fini(record);
	record->given_up = why;
}

/* Copies the entries of an object to the end of `to'. */
static void move_object(
	struct record *record, struct record_object *object, uint8_t *to, uint32_t *size)
{
	uint32_t first = 0, last = 0;

	for (uint32_t at = object->first, next; at != 0; at = next) {
		struct record_entry *entry = record_entry(record, at),
				    *moved = (void *)(to + *size);
		const struct record_rule *rule;

		next = entry->next;
		if (entry->op == 0)
			continue;
		memcpy(moved, entry, entry->size);
		moved->next = 0;
		/* So that it is not taken for the first entry at the new offset of that. */
		entry->object = RECORD_NO_OBJECT;
		rule = record_rule(moved->op);
		/* The key is there, so this needs no memory. */
		if (rule->group > 0)
			(void)record_index_put(&record->index,
				change_key(rule, moved->object, record_part(moved).message), *size);
		if (last > 0)
			((struct record_entry *)(void *)(to + last))->next = *size;
		else
			first = *size;
		last = *size;
		*size += moved->size;
	}
	object->first = first;
	object->last = last;
}

/* Drops what is not kept. Without memory for the copy, it stays. */
static void compact(struct record *record)
{
	uint32_t size = RECORD_START, max = record->size - record->n_dead;
	uint8_t *to = account_alloc(record->account, max, 0);
	const struct record_entry *entry;

	if (!to)
		return;
	for (uint32_t at = RECORD_START; at < record->size; at += entry->size) {
		entry = record_entry(record, at);
		if (entry->object != RECORD_NO_OBJECT && record->objects[entry->object].first == at)
			move_object(record, &record->objects[entry->object], to, &size);
	}
	account_free(record->bytes);
	record->bytes = to;
	record->size = size;
	record->size_max = max;
	record->n_dead = 0;
}

static bool make_space(struct record *record, uint32_t more)
{
	uint32_t wanted = MAX(record->size, RECORD_START) + more;
	uint32_t max = MAX(wanted, record->size_max + record->size_max / 8);
	uint8_t *grown;

	if (wanted <= record->size_max)
		return true;
	if (wanted > RECORD_MAX)
		return false;
	grown = account_grow(record->account, record->bytes, max, 1);
	if (!grown)
		return false;
	record->bytes = grown;
	record->size = MAX(record->size, RECORD_START);
	record->size_max = max;
	return true;
}

/* ---- entries */

/* Where the message names objects. A field that does not change names the same as before. */
static void look_up_uses(
	struct record *record, struct news *news, const struct record_entry *before)
{
	const struct record_rule *rule = news->rule;

	for (unsigned i = 0; i < rule->n_uses; i++)
		news->uses[i] = before && rule->uses[i].is_fixed
					? before->uses[i]
					: find(record, rule->uses[i].kind,
						  number_at(news->head, rule->uses[i].at));
}

static uint32_t news_size(const struct record *record, const struct news *news)
{
	return body_at(news->rule->n_uses, record->image != NULL) + news->head->size -
	       (uint32_t)HEAD_SIZE + record_answers_size(news->rule);
}

static void keep_answers(const struct news *news, uint8_t *answers, uint32_t size)
{
	memset(answers, 0, size);
	for (unsigned i = 0; i < news->rule->n_same; i++) {
		const struct record_span *span = &news->rule->same[i];

		memcpy(answers, news->answer + span->at, span->size);
		answers += span->size;
	}
}

/* `message' without its head. */
static void write_message(const struct news *news, uint8_t *message, uint32_t size)
{
	const uint8_t *fixed = news->fixed;

	memcpy(message, (const uint8_t *)news->head + HEAD_SIZE, size);
	for (unsigned i = 0; news->has_fixed && i < news->rule->n_fixed; i++) {
		const struct record_span *span = &news->rule->fixed[i];

		memcpy(message + span->at - HEAD_SIZE, fixed, span->size);
		fixed += span->size;
	}
}

/* The space is there. A use of the own object does not count. */
static void write_entry(struct record *record, uint32_t at, const struct news *news)
{
	struct record_entry *entry = record_entry(record, at);
	struct record_part part;

	entry->size = news_size(record, news);
	entry->object = news->object;
	entry->op = news->head->op;
	entry->has_image = record->image != NULL;
	entry->n_uses = news->rule->n_uses;
	for (unsigned i = 0; i < entry->n_uses; i++) {
		entry->uses[i] = news->uses[i] == news->object ? RECORD_NO_OBJECT : news->uses[i];
		if (entry->uses[i] != RECORD_NO_OBJECT)
			record->objects[entry->uses[i]].n_users++;
	}
	part = record_part(entry);
	if (part.image)
		*part.image = TAKE_PTR(record->image);
	write_message(news, part.message, part.message_size);
	keep_answers(news, part.answers, part.answers_size);
}

/* Behind the other entries of the object. */
static bool append(struct record *record, const struct news *news, uint32_t *ret_at)
{
	struct record_object *object = &record->objects[news->object];
	uint32_t size = news_size(record, news), at;

	if (!make_space(record, size))
		return false;
	at = record->size;
	write_entry(record, at, news);
	record_entry(record, at)->next = 0;
	record->size += size;
	if (object->last > 0)
		record_entry(record, object->last)->next = at;
	else
		object->first = at;
	object->last = at;
	*ret_at = at;
	return true;
}

/* A larger or smaller entry lies elsewhere; the old one stays in the list, without a message. */
static bool replace_elsewhere(
	struct record *record, const struct news *news, uint32_t before, uint32_t *ends)
{
	struct record_object *object = &record->objects[news->object];
	uint32_t size = news_size(record, news), at;
	struct record_entry *old, *entry;

	if (before == object->first || !make_space(record, size))
		return false;
	at = record->size;
	record->size += size;
	write_entry(record, at, news);
	entry = record_entry(record, at);
	old = record_entry(record, before);
	entry_end(record, before, ends);
	old->object = news->object;
	old->op = 0;
	entry->next = old->next;
	old->next = at;
	if (object->last == before)
		object->last = at;
	return record_index_put(&record->index,
		change_key(news->rule, news->object, record_part(entry).message), at);
}

/* What stays of the entry that `news' replaces; and the objects that `news' names. */
static void keep_fixed(struct record *record, struct news *news, struct record_entry *entry)
{
	struct record_part part = record_part(entry);
	uint8_t *fixed = news->fixed;

	if (entry->op != news->head->op) {
		look_up_uses(record, news, NULL);
		return;
	}
	for (unsigned i = 0; i < news->rule->n_fixed; i++) {
		const struct record_span *span = &news->rule->fixed[i];

		memcpy(fixed, part.message + span->at - HEAD_SIZE, span->size);
		fixed += span->size;
	}
	news->has_fixed = true;
	look_up_uses(record, news, entry);
}

/* Whether the message names the objects that the entry names, each by the same ID. */
static bool names_same(const struct record *record, const struct news *news,
	const struct record_entry *entry, const uint8_t *message)
{
	for (unsigned i = 0; i < news->rule->n_uses; i++) {
		uint16_t at = news->rule->uses[i].at;

		if (news->rule->uses[i].is_fixed)
			continue;
		/* Another object may have the ID of one that has ended. */
		if (entry->uses[i] == RECORD_NO_OBJECT ||
			record->objects[entry->uses[i]].is_ended ||
			number_at(news->head, at) != number_at(message, at - HEAD_SIZE))
			return false;
	}
	return true;
}

/*
 * The usual change, such as new parameters of a node: all that is new are bytes of the message.
 * Programs change nodes before each launch, so this looks up no other object.
 */
static bool rewrite(struct record *record, const struct news *news, struct record_entry *entry)
{
	const struct record_rule *rule = news->rule;
	uint8_t *message = (uint8_t *)entry + body_at(rule->n_uses, false);
	const uint8_t *changed = (const uint8_t *)news->head + HEAD_SIZE;
	uint32_t at = 0;

	if (entry->op != news->head->op || entry->has_image || record->image || rule->n_same > 0 ||
		entry->size != news_size(record, news) || !names_same(record, news, entry, message))
		return false;
	for (unsigned i = 0; i < rule->n_fixed; i++) {
		uint32_t fixed = rule->fixed[i].at - (uint32_t)HEAD_SIZE;

		memcpy(message + at, changed + at, fixed - at);
		at = fixed + rule->fixed[i].size;
	}
	memcpy(message + at, changed + at, news->head->size - HEAD_SIZE - at);
	return true;
}

static bool replace(struct record *record, struct news *news, uint32_t before)
{
	struct record_entry *entry = record_entry(record, before);
	uint32_t ends = RECORD_NO_OBJECT, next = entry->next, size = entry->size;
	bool is_kept = true;

	keep_fixed(record, news, entry);
	if (size == news_size(record, news)) {
		/* What only the old one names must outlive it, if the new one names it, too. */
		for (unsigned i = 0; i < news->rule->n_uses; i++)
			if (news->uses[i] != RECORD_NO_OBJECT)
				record->objects[news->uses[i]].n_users++;
		entry_end(record, before, &ends);
		record->n_dead -= size;
		write_entry(record, before, news);
		entry->next = next;
		for (unsigned i = 0; i < news->rule->n_uses; i++)
			if (news->uses[i] != RECORD_NO_OBJECT)
				record->objects[news->uses[i]].n_users--;
		if (news->rule->group > 0)
			is_kept = record_index_put(&record->index,
				change_key(news->rule, news->object, record_part(entry).message),
				before);
	} else
		is_kept = replace_elsewhere(record, news, before, &ends);
	objects_end(record, ends);
	return is_kept;
}

/* ---- messages */

static bool object_new(struct record *record, uint32_t *ret_object)
{
	if (record->free_object > 0) {
		*ret_object = record->free_object - 1;
		record->free_object = record->objects[*ret_object].first;
	} else {
		if (record->n_objects >> OBJECTS_MAX_BITS > 0 ||
			!account_grow_list(record->account, &record->objects, record->n_objects,
				&record->n_objects_max, sizeof(*record->objects)))
			return false;
		*ret_object = record->n_objects++;
	}
	record->objects[*ret_object] = (struct record_object){.is_used = true};
	return true;
}

/* A part belongs to the object that its message names. */
static uint32_t owner_of(const struct news *news)
{
	for (unsigned i = 0; i < news->rule->n_uses; i++)
		if (news->rule->uses[i].kind == news->rule->owner)
			return news->uses[i];
	return RECORD_NO_OBJECT;
}

static bool keep_make(struct record *record, struct news *news)
{
	const struct record_rule *rule = news->rule;
	uint32_t id = number_at(news->head, rule->id_at), at;

	look_up_uses(record, news, NULL);
	news->object = rule->owner == rule->kind ? find(record, rule->kind, id) : owner_of(news);
	if (rule->owner == rule->kind && news->object != RECORD_NO_OBJECT)
		return replace(record, news, record->objects[news->object].first);
	if (rule->owner == rule->kind && !object_new(record, &news->object))
		return false;
	return news->object != RECORD_NO_OBJECT && append(record, news, &at) &&
	       record_index_put(&record->index, record_id_key(rule->kind, id), news->object);
}

static bool keep_change(struct record *record, struct news *news)
{
	const struct record_rule *rule = news->rule;
	uint64_t key;
	uint32_t at;

	news->object = find(record, rule->kind, number_at(news->head, rule->id_at));
	if (news->object == RECORD_NO_OBJECT)
		return false;
	if (rule->group == 0) {
		look_up_uses(record, news, NULL);
		return append(record, news, &at);
	}
	key = change_key(rule, news->object, (const uint8_t *)news->head + HEAD_SIZE);
	if (record_index_get(&record->index, key, &at))
		return rewrite(record, news, record_entry(record, at)) || replace(record, news, at);
	look_up_uses(record, news, NULL);
	return append(record, news, &at) && record_index_put(&record->index, key, at);
}

/* The IDs of the object and of its parts are free from now on. */
static void forget_ids(struct record *record, const struct record_object *object)
{
	struct record_entry *entry;

	for (uint32_t at = object->first; at != 0; at = entry->next) {
		const struct record_rule *rule;
		struct record_part part;

		entry = record_entry(record, at);
		rule = record_rule(entry->op);
		if (!rule || rule->mark != RECORD_MAKE)
			continue;
		part = record_part(entry);
		record_index_remove(&record->index,
			record_id_key(rule->kind, record_number(&part, rule->id_at)));
	}
}

static void note_end(struct record *record, const struct news *news)
{
	uint32_t number = find(record, news->rule->kind, number_at(news->head, news->rule->id_at));
	struct record_object *object;

	if (number == RECORD_NO_OBJECT)
		return;
	object = &record->objects[number];
	forget_ids(record, object);
	object->is_ended = true;
	if (object->n_users > 0)
		return;
	object->is_ending = true;
	object->last = RECORD_NO_OBJECT;
	objects_end(record, number);
}

static bool keep(struct record *record, struct news *news)
{
	switch (news->rule->mark) {
	case RECORD_MAKE:
		return keep_make(record, news);
	case RECORD_CHANGE:
		return keep_change(record, news);
	default:
		note_end(record, news);
		return true;
	}
}

void record_add(struct record *record, const struct message_head *head, const void *answer)
{
	struct news news = {.rule = record_rule(head->op), .head = head, .answer = answer};

	/* Linkers are not recorded: a session with one cannot move. */
	if (news.rule && news.rule->kind != RECORD_LINKER && !record->given_up &&
		!record->is_refused) {
		if (!keep(record, &news))
			record_give_up(record, "the record of its objects has no space");
		else if (record->n_dead > COMPACT_MIN && record->n_dead > record->size / 3)
			compact(record);
	}
	record_drop(record);
}

void record_drop(struct record *record)
{
	image_unref(TAKE_PTR(record->image));
	record->is_refused = false;
}

void record_note_image(struct record *record, struct image *image)
{
	image_unref(record->image);
	record->image = image_ref(image);
}

void record_refuse(struct record *record)
{
	record->is_refused = true;
	record->n_refused++;
}

/* ---- life */

void record_init(struct record *record, struct account *account)
{
	*record = (struct record){.account = account, .index = {.account = account}};
}

void record_fini(struct record *record)
{
	record_drop(record);
	for (uint32_t i = 0; i < record->n_objects; i++) {
		uint32_t at = record->objects[i].is_used ? record->objects[i].first : 0;

		for (; at != 0; at = record_entry(record, at)->next)
			if (record_entry(record, at)->op != 0)
				image_unref(image_of(record_entry(record, at)));
	}
	account_free(record->bytes);
	account_free(record->objects);
	record_index_fini(&record->index);
	record_init(record, record->account);
}

const char *record_obstacle(const struct record *record)
{
	return record->given_up;
}

uint32_t record_count(const struct record *record, unsigned kind)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < record->n_objects; i++)
		n += record->objects[i].is_used &&
		     (kind == RECORD_KINDS || record_kind(record, i) == kind);
	return n;
}

uint64_t record_held(const struct record *record)
{
	return record->size_max + record->n_objects_max * sizeof(struct record_object) +
	       record_index_size(&record->index);
}
