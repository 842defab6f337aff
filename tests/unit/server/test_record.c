/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The record of a session: rows of messages, and the messages that a replay sends. Both are words:
 *
 *     event 1 . -event 1 . library 5 . kernel 5 7 . attr 7 DEVICE NAME VALUE . graph 3
 *     node 3 NUMBER KERNEL PRIORITY SIZE . wait 3 NUMBER EVENT . edge 3 FROM TO . made 3 . on 3
 * NUMBER 0
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "messages.h"
#include "spec_hash.h"
#include "server/util/image.h"
#include "server/record/record.h"
#include "server/record/record_file.h"
#include "server/record/record_script.h"
#include "tests/unit/seed.h"

#define NUMBERS 5
#define PARAMS_AT 4 /* of a node: bytes of its parameters */

/* A word, its message, and where the numbers of the word are in it. */
static const struct word {
	const char *name;
	uint16_t op;
	uint32_t size;
	unsigned n, at[NUMBERS];
} words[] = {
#define AT(message, field) offsetof(struct msg_##message, field)
#define WORD(name, OP, message) name, OP, sizeof(struct msg_##message)
	{WORD("event", OP_EVENT_CREATE, event_create), 1, {AT(event_create, event)}},
	{WORD("-event", OP_EVENT_DESTROY, event_destroy), 1, {AT(event_destroy, event)}},
	{WORD("library", OP_LIBRARY_LOAD, library_load), 1, {AT(library_load, library)}},
	{WORD("-library", OP_LIBRARY_UNLOAD, library_unload), 1, {AT(library_unload, library)}},
	{WORD("kernel", OP_LIBRARY_KERNEL, library_kernel), 2,
		{AT(library_kernel, library), AT(library_kernel, kernel)}},
	{WORD("attr", OP_KERNEL_SET_ATTRIBUTE, kernel_set_attribute), 4,
		{AT(kernel_set_attribute, kernel), AT(kernel_set_attribute, device),
			AT(kernel_set_attribute, attribute), AT(kernel_set_attribute, value)}},
	{WORD("graph", OP_GRAPH_BEGIN, graph_begin), 1, {AT(graph_begin, graph)}},
	{WORD("-graph", OP_GRAPH_DESTROY, graph_destroy), 1, {AT(graph_destroy, graph)}},
	{WORD("node", OP_GRAPH_KERNEL, graph_kernel), 5,
		{AT(graph_kernel, graph), AT(graph_kernel, node), AT(graph_kernel, kernel),
			AT(graph_kernel, priority), AT(graph_kernel, params_size)}},
	{WORD("wait", OP_GRAPH_EVENT, graph_event), 3,
		{AT(graph_event, graph), AT(graph_event, node), AT(graph_event, event)}},
	{WORD("edge", OP_GRAPH_EDGES, graph_edges), 1, {AT(graph_edges, graph)}},
	{WORD("made", OP_GRAPH_INSTANTIATE, graph_instantiate), 1, {AT(graph_instantiate, graph)}},
	{WORD("on", OP_GRAPH_ENABLE, graph_enable), 3,
		{AT(graph_enable, graph), AT(graph_enable, node), AT(graph_enable, is_enabled)}},
	{WORD("stream", OP_STREAM_CREATE, stream_create), 1, {AT(stream_create, stream)}},
	{WORD("level", OP_STREAM_PRIORITY, stream_priority), 2,
		{AT(stream_priority, stream), AT(stream_priority, priority)}},
	{WORD("-stream", OP_STREAM_DESTROY, stream_destroy), 1, {AT(stream_destroy, stream)}},
	{WORD("green", OP_GREEN_CREATE, green_create), 2,
		{AT(green_create, green), AT(green_create, of)}},
	{WORD("-green", OP_GREEN_DESTROY, green_destroy), 1, {AT(green_destroy, green)}},
	{WORD("gstream", OP_GREEN_STREAM, green_stream), 2,
		{AT(green_stream, stream), AT(green_stream, green)}},
	{WORD("array", OP_ARRAY_CREATE, array_create), 1, {AT(array_create, array)}},
	{WORD("-array", OP_ARRAY_DESTROY, array_destroy), 1, {AT(array_destroy, array)}},
	{WORD("surface", OP_SURFACE_CREATE, surface_create), 2,
		{AT(surface_create, texture), AT(surface_create, array)}},
	{WORD("-surface", OP_TEXTURE_DESTROY, texture_destroy), 1, {AT(texture_destroy, texture)}},
	{WORD("limit", OP_LIMIT_RAISE, limit_raise), 2,
		{AT(limit_raise, limit), AT(limit_raise, value)}},
	{WORD("device", OP_DEVICE_OPEN, device_open), 1, {AT(device_open, device)}},
	{WORD("alloc", OP_MEMORY_ALLOC, memory_alloc), 1, {AT(memory_alloc, size)}},
	{WORD("linker", OP_LINKER_CREATE, linker_create), 1, {AT(linker_create, linker)}},
	{WORD("copy", OP_COPY_DEVICE, copy_device), 1, {AT(copy_device, stream)}},
};

static struct {
	_Alignas(8) uint8_t message[8192];
	_Alignas(8) uint8_t answer[1024];
} scratch;

static const struct word *word_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(words[i].name, name) == 0)
			return &words[i];
	fail_msg("no word %s", name);
	return NULL;
}

static bool is_checked; /* messages that no client could send are left out */

/* Whether a client could send it: its ID is free, and its objects exist. */
static bool may_say(const struct record *record, const struct message_head *head)
{
	const struct record_rule *rule = record_rule(head->op);
	const uint8_t *bytes = (const void *)head;
	uint32_t id, object;

	memcpy(&id, bytes + rule->id_at, sizeof(id));
	if (record_index_get(&record->index, record_id_key(rule->kind, id), &object) ==
		(rule->mark == RECORD_MAKE))
		return false;
	for (unsigned i = 0; i < rule->n_uses; i++) {
		memcpy(&id, bytes + rule->uses[i].at, sizeof(id));
		if (rule->uses[i].kind != RECORD_CONTEXT_SHARE &&
			!record_index_get(
				&record->index, record_id_key(rule->uses[i].kind, id), &object))
			return false;
	}
	return true;
}

/* "!": the next message is refused. */
static void say(struct record *record, char *text)
{
	struct message_head *head = (void *)scratch.message;
	const struct word *word;
	char *rest, *name = strtok_r(text, " ", &rest);

	if (strcmp(name, "!") == 0) {
		record_refuse(record);
		name = strtok_r(NULL, " ", &rest);
	}
	word = word_find(name);
	memset(&scratch, 0, sizeof(scratch));
	*head = (struct message_head){.size = word->size, .op = word->op};
	for (unsigned i = 0; i < word->n; i++) {
		const char *number = strtok_r(NULL, " ", &rest);
		uint32_t value = number ? (uint32_t)strtoul(number, NULL, 0) : 0;

		memcpy(scratch.message + word->at[i], &value, sizeof(value));
		if (word->op == OP_GRAPH_KERNEL && i == PARAMS_AT)
			head->size += ALIGN_UP(value, 8u);
	}
	memset(scratch.answer, 0x5a, sizeof(scratch.answer));
	if (!is_checked || may_say(record, head))
		record_add(record, head, scratch.answer);
}

static void say_all(struct record *record, const char *text)
{
	char *copy = strdup(text), *rest = copy, *part;

	while ((part = strsep(&rest, ".")))
		if (strspn(part, " ") != strlen(part))
			say(record, part);
	free(copy);
}

static void describe(const struct record_step *step, char *text, size_t size)
{
	size_t length = strlen(text);

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const struct word *word = &words[i];

		if (word->op != step->head->op)
			continue;
		length += (size_t)snprintf(
			text + length, size - length, "%s%s", length > 0 ? " . " : "", word->name);
		for (unsigned k = 0; k < word->n; k++) {
			uint32_t value;

			memcpy(&value, (const uint8_t *)step->head + word->at[k], sizeof(value));
			length += (size_t)snprintf(text + length, size - length, " %u", value);
		}
	}
}

static struct record_notes notes;

/* Loads it, as another server does. */
static struct record_script *load(struct record_saved *saved)
{
	struct record_script *script;
	int *fds = malloc((saved->n_images + 1) * sizeof(*fds));

	for (uint32_t i = 0; i < saved->n_images; i++)
		fds[i] = dup(saved->image_fds[i]);
	assert_int_equal(record_load(saved->fd, fds, saved->n_images, &script), 0);
	record_saved_fini(saved);
	return script;
}

/* Through a server that has not made the objects. */
static struct record_script *move(const struct record *record)
{
	struct record_saved saved;
	struct record_script *script, *next;

	assert_int_equal(record_save(record, &notes, &saved), 0);
	script = load(&saved);
	assert_int_equal(record_script_save(script, &saved), 0);
	next = load(&saved);
	record_script_free(script);
	return next;
}

static void check_script(const struct record *record, const char *expected)
{
	struct record_script *script = move(record);
	struct record_step step;
	char text[4096] = "";

	while (record_script_next(script, &step)) {
		assert_true(record_step_is_same(&step, scratch.answer));
		describe(&step, text, sizeof(text));
	}
	assert_string_equal(text, expected);
	record_script_free(script);
}

static const struct row {
	const char *messages, *replay;
} rows[] = {
	{"", ""},
	/* An object, and its end. */
	{"event 1 . event 2 . -event 1", "event 2"},
	{"event 1 . -event 1 . event 1", "event 1"},
	{"! event 1 . event 2", "event 2"},
	/* What leaves nothing behind, is memory, or is not recorded. */
	{"alloc 64 . copy 1 . linker 1", ""},
	/* Kinds come in the order of their uses. */
	{"stream 70 . event 1 . library 5 . device 0",
		"device 0 . library 5 . event 1 . stream 70"},
	/* Changes replace by key. */
	{"stream 70 . level 70 1 . level 70 2", "stream 70 . level 70 2"},
	{"device 0 . limit 1 8 . limit 2 8 . limit 1 9", "device 0 . limit 1 9 . limit 2 8"},
	{"device 0 . device 0", "device 0"},
	{"library 5 . kernel 5 7 . attr 7 0 8 1 . attr 7 0 9 1 . attr 7 1 8 1 . attr 7 0 8 2",
		"library 5 . kernel 5 7 . attr 7 0 8 2 . attr 7 0 9 1 . attr 7 1 8 1"},
	{"library 5 . kernel 5 7 . kernel 5 8 . attr 7 0 8 1 . attr 8 0 8 2",
		"library 5 . kernel 5 7 . kernel 5 8 . attr 7 0 8 1 . attr 8 0 8 2"},
	/* A kernel ends with its library. */
	{"library 5 . kernel 5 7 . attr 7 0 8 1 . -library 5 . library 6 . kernel 6 7",
		"library 6 . kernel 6 7"},
	/* A change of a node takes the place of the node. */
	{"library 5 . kernel 5 7 . kernel 5 8 . graph 3 . node 3 0 7 1 8 . node 3 1 7 1 8 . made 3 "
	 ". node 3 0 8 1 8",
		"library 5 . kernel 5 7 . kernel 5 8 . graph 3 . node 3 0 8 1 8 . node 3 1 7 1 8 . "
		"made 3"},
	/* ... also with other parameters, again and again, and as the last one. */
	{"library 5 . kernel 5 7 . graph 3 . node 3 0 7 1 8 . node 3 1 7 1 8 . made 3 . node 3 0 7 "
	 "1 64 . node 3 0 7 1 16",
		"library 5 . kernel 5 7 . graph 3 . node 3 0 7 1 16 . node 3 1 7 1 8 . made 3"},
	{"library 5 . kernel 5 7 . graph 3 . node 3 0 7 1 8 . node 3 0 7 1 64 . made 3",
		"library 5 . kernel 5 7 . graph 3 . node 3 0 7 1 64 . made 3"},
	/* The priority of a node is fixed. */
	{"library 5 . kernel 5 7 . graph 3 . node 3 0 7 1 8 . node 3 0 7 2 8 . node 3 0 7 3 16",
		"library 5 . kernel 5 7 . graph 3 . node 3 0 7 1 16"},
	/* Whether a node is enabled is no change of the node; edges are all kept. */
	{"event 1 . graph 3 . wait 3 0 1 . edge 3 . edge 3 . made 3 . on 3 0 0 . on 3 0 1",
		"event 1 . graph 3 . wait 3 0 1 . edge 3 . edge 3 . made 3 . on 3 0 1"},
	{"event 1 . graph 3 . wait 3 0 1 . made 3 . ! wait 3 0 1 . on 3 0 0 . -graph 3", "event 1"},
	/* Objects that outlive their end: they end behind everything, with an ID that nothing has.
	 */
	{"event 1 . graph 3 . wait 3 0 1 . made 3 . -event 1",
		"event 262143 . graph 3 . wait 3 0 262143 . made 3 . -event 262143"},
	{"event 1 . graph 3 . wait 3 0 1 . made 3 . -event 1 . event 1",
		"event 262143 . event 1 . graph 3 . wait 3 0 262143 . made 3 . -event 262143"},
	{"event 262143 . event 262142 . graph 3 . wait 3 0 262142 . -event 262142",
		"event 262143 . event 262142 . graph 3 . wait 3 0 262142 . -event 262142"},
	{"event 1 . graph 3 . wait 3 0 1 . made 3 . -event 1 . -graph 3", ""},
	{"event 1 . event 2 . graph 3 . wait 3 0 1 . made 3 . -event 1 . wait 3 0 2",
		"event 2 . graph 3 . wait 3 0 2 . made 3"},
	/* A changed node names the object that has the ID now. */
	{"event 1 . graph 3 . wait 3 0 1 . made 3 . -event 1 . event 1 . wait 3 0 1",
		"event 1 . graph 3 . wait 3 0 1 . made 3"},
	{"library 5 . kernel 5 7 . attr 7 0 8 1 . graph 3 . node 3 0 7 1 8 . made 3 . -library 5 . "
	 "library 5 . kernel 5 7",
		"library 1048575 . kernel 1048575 1048575 . attr 1048575 0 8 1 . library 5 . "
		"kernel 5 7 . "
		"graph 3 . node 3 0 1048575 1 8 . made 3 . -library 1048575"},
	{"library 5 . kernel 5 7 . library 6 . kernel 6 8 . graph 3 . node 3 0 7 1 8 . made 3 . "
	 "-library 5 . node 3 0 8 1 8",
		"library 6 . kernel 6 8 . graph 3 . node 3 0 8 1 8 . made 3"},
	{"green 1 64 . gstream 70 1 . -green 1", "green 63 64 . gstream 70 63 . -green 63"},
	{"green 1 64 . green 2 1 . -green 1 . gstream 70 2",
		"green 63 64 . green 2 63 . gstream 70 2 . -green 63"},
	{"green 1 64 . gstream 70 1 . -green 1 . -stream 70", ""},
	{"array 1 . surface 1 1 . -array 1", "array 65535 . surface 1 65535 . -array 65535"},
	{"array 1 . surface 1 1 . -array 1 . -surface 1 . array 1", "array 1"},
	/* Two that end, the last one first. */
	{"event 1 . graph 3 . wait 3 0 1 . -event 1 . event 1 . graph 4 . wait 4 0 1 . -event 1",
		"event 262143 . event 262142 . graph 3 . wait 3 0 262143 . graph 4 . wait 4 0 "
		"262142 . "
		"-event 262143 . -event 262142"},
};

static void test_rows(_unused_ void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct record record;

		record_init(&record, NULL);
		say_all(&record, rows[i].messages);
		assert_null(record_obstacle(&record));
		check_script(&record, rows[i].replay);
		record_fini(&record);
		assert_int_equal(record_held(&record), 0);
	}
}

/* A message of chance. Numbers are small, so that many name the same objects. */
static void say_any(struct record *record)
{
	static const char *const names[] = {"event", "event", "-event", "library", "-library",
		"kernel", "kernel", "attr", "graph", "-graph", "node", "node", "node", "node",
		"wait", "wait", "on", "edge", "stream", "gstream", "green", "-green", "-stream",
		"level", "array", "surface", "-array", "-surface"};
	const char *name = names[(size_t)rand() % ARRAY_SIZE(names)];
	const struct word *word = word_find(name);
	char text[128];
	int length = snprintf(text, sizeof(text), "%s", name);

	for (unsigned i = 0; i < word->n; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, " %u",
			(unsigned)rand() %
				(word->op == OP_GRAPH_KERNEL && i == PARAMS_AT ? 200 : 6));
	say(record, text);
}

/* A replay of a record makes the same record, whatever was moved and dropped in the first one. */
static void test_chance(_unused_ void **state)
{
	struct record record, again;
	struct record_script *script, *other;
	struct record_step step, other_step;

	srand(seed_read(43));
	record_init(&record, NULL);
	record_init(&again, NULL);
	is_checked = true;
	for (unsigned i = 0; i < 40000; i++) {
		say_any(&record);
		if (i % 4000 > 0)
			continue;
		script = move(&record);
		while (record_script_next(script, &step))
			record_add(&again, step.head, scratch.answer);
		record_script_free(script);
		assert_int_equal(
			record_count(&record, RECORD_KINDS), record_count(&again, RECORD_KINDS));
		script = move(&record);
		other = move(&again);
		while (record_script_next(script, &step)) {
			assert_true(record_script_next(other, &other_step));
			assert_int_equal(step.head->size, other_step.head->size);
			assert_memory_equal(step.head, other_step.head, step.head->size);
		}
		assert_false(record_script_next(other, &other_step));
		record_script_free(script);
		record_script_free(other);
		record_fini(&again);
	}
	assert_null(record_obstacle(&record));
	/* Half of it at most is not kept. */
	assert_true(record.n_dead <= 4096 || record.n_dead <= record.size / 2);
	is_checked = false;
	record_fini(&record);
}

/* An image stays as long as its library, and travels as a descriptor. */
static void test_images(_unused_ void **state)
{
	static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n";
	int fd = memfd_create("image", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	struct image *image;
	struct record record;
	struct record_script *script;
	struct record_step step;

	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
	assert_int_equal(image_get(NULL, fd, sizeof(text), &image), 0);
	close(fd);
	record_init(&record, NULL);
	record_note_image(&record, image);
	say_all(&record, "! library 4");
	record_note_image(&record, image);
	say_all(&record, "library 5");
	record_note_image(&record, image);
	say_all(&record, "library 6 . library 7");
	image_unref(image);
	script = move(&record);
	for (unsigned i = 0; record_script_next(script, &step); i++) {
		struct image *other = NULL;

		assert_int_equal(step.image_fd >= 0, i < 2);
		if (step.image_fd >= 0)
			assert_int_equal(image_get(NULL, step.image_fd, sizeof(text), &other), 0);
		image_unref(other);
	}
	record_script_free(script);
	assert_int_equal(images_count(), 1);
	say_all(&record, "-library 5 . -library 6");
	assert_int_equal(images_count(), 0);
	record_fini(&record);
}

static bool load_bytes(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("record", MFD_CLOEXEC);
	struct record_script *script = NULL;
	struct record_step step;
	int r;

	assert_int_equal(write(fd, bytes, size), size);
	r = record_load(fd, NULL, 0, &script);
	while (r == 0 && record_script_next(script, &step))
		assert_true(step.rule || step.note);
	record_script_free(script);
	close(fd);
	assert_true(r == 0 || r == -EBADMSG);
	return r == 0;
}

/* A file is the work of another process: its sizes are checked before the first step. */
static void test_broken_files(_unused_ void **state)
{
	static const uint8_t values[] = {0, 1, 7, 8, 0x7f, 0x80, 0xff};
	struct record record;
	struct record_saved saved;
	uint8_t bytes[1024];
	size_t size, n_refused = 0;

	record_init(&record, NULL);
	say_all(&record, "device 0 . event 1 . graph 3 . wait 3 0 1 . edge 3 . made 3");
	assert_int_equal(record_save(&record, &notes, &saved), 0);
	size = (size_t)pread(saved.fd, bytes, sizeof(bytes), 0);
	assert_in_range(size, 100, sizeof(bytes) - 1);
	assert_true(load_bytes(bytes, size));
	for (size_t i = 0; i < size; i++)
		assert_false(load_bytes(bytes, i));
	for (size_t i = 0; i < size; i++) {
		uint8_t before = bytes[i];

		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			bytes[i] = values[k];
			n_refused += !load_bytes(bytes, size);
		}
		bytes[i] = before;
	}
	assert_true(n_refused > 300);
	record_saved_fini(&saved);
	record_fini(&record);
}

/* The account pays. At its bound the record is given up, and nothing of it stays. */
static void test_bound(_unused_ void **state)
{
	struct record record;
	struct account *account;
	uint64_t held;

	setenv("MPS_CLIENT_HOST_MIB", "1", 1);
	account = account_new(0, (struct account_owner){0}, NULL);
	record_init(&record, account);
	held = account_held(account);
	say_all(&record, "event 1");
	assert_true(account_held(account) >= held + record_held(&record));
	for (unsigned i = 2; i < 60000 && !record_obstacle(&record); i++) {
		char text[32];

		snprintf(text, sizeof(text), "event %u", i);
		say(&record, text);
	}
	assert_string_equal(record_obstacle(&record), "the record of its objects has no space");
	assert_int_equal(account_held(account), held);
	say_all(&record, "event 1 . -event 1");
	assert_int_equal(record_count(&record, RECORD_KINDS), 0);
	record_fini(&record);
	account_close(account);
}

/* Notes come behind the `make' of their object; those of other objects are left out. */
static void test_notes(_unused_ void **state)
{
	struct record record;
	struct record_script *script;
	struct record_step step;
	char text[256] = "";

	record_init(&record, NULL);
	say_all(&record, "library 5 . kernel 5 7 . event 1 . event 2");
	record_notes_add(&notes, RECORD_LIBRARY, 5, 0, 50);
	record_notes_add(&notes, RECORD_EVENT, 2, 0, 20);
	record_notes_add(&notes, RECORD_LIBRARY, 5, 1, 51);
	record_notes_add(&notes, RECORD_EVENT, 3, 0, 30);
	script = move(&record);
	while (record_script_next(script, &step)) {
		size_t length = strlen(text);

		if (step.note)
			snprintf(text + length, sizeof(text) - length, " . note %u %u %u",
				step.note->id, step.note->index, (unsigned)step.note->value);
		else
			describe(&step, text, sizeof(text));
	}
	assert_string_equal(text, "library 5 . note 5 1 51 . note 5 0 50 . kernel 5 7 . event 1 . "
				  "event 2 . note 2 0 20");
	record_script_free(script);
	record_notes_fini(&notes);
	record_fini(&record);
}

/* What a record takes, beside what the objects are charged (kept.h): at most 5 %. */
static void test_share(_unused_ void **state)
{
	struct record record;
	char text[64];
	uint64_t charged = 0;

	record_init(&record, NULL);
	for (unsigned i = 0; i < 10000; i++) {
		snprintf(text, sizeof(text), "event %u", i);
		say(&record, text);
		charged += KEPT_EVENT + 96;
	}
	say_all(&record, "library 5 . kernel 5 7");
	for (unsigned i = 0; i < 10; i++) {
		snprintf(text, sizeof(text), "graph %u", i);
		say(&record, text);
		for (unsigned k = 0; k < 1000; k++) {
			snprintf(text, sizeof(text), "node %u %u 7 0 64", i, k);
			say(&record, text);
			charged += KEPT_NODE + KEPT_PARAMS(64);
		}
	}
	assert_true(20 * record_held(&record) <= charged);
	record_fini(&record);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows), cmocka_unit_test(test_chance),
		cmocka_unit_test(test_images), cmocka_unit_test(test_broken_files),
		cmocka_unit_test(test_notes), cmocka_unit_test(test_share),
		cmocka_unit_test(test_bound), /* last: it sets the bound of the process */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
