/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events of a trace as JSON. Any thread.
 *
 * Invariant: the chunk can have any bytes. What is impossible is left out.
 */

#include "trace_text.h"

#include <stdio.h>

#include "bounds.h"
#include "daemon/text/demangle.h"

/* The layout's number of streams (layout.h), as the daemon knows nothing else of it. */
#define STREAM_MAX 4096u

/* Times beyond this are no times: 73 years. */
#define TIME_MAX_NS ((uint64_t)INT64_MAX / 4)

bool trace_chunk_ok(struct trace_chunk *chunk)
{
	struct trace_head *head = &chunk->head;

	if (head->magic != TRACE_MAGIC || head->n_records > TRACE_RECORDS ||
		head->names_size > TRACE_NAMES)
		return false;
	chunk->names[0] = chunk->names[TRACE_NAMES - 1] = '\0';
	head->command[TRACE_COMMAND_MAX - 1] = '\0';
	head->group[TRACE_GROUP_MAX - 1] = '\0';
	return true;
}

static bool record_ok(const struct trace_record *record)
{
	return record->kind > 0 && record->kind < TRACE_KINDS && record->stream < STREAM_MAX &&
	       record->start_ns <= TIME_MAX_NS && record->duration_ns <= TIME_MAX_NS &&
	       record->name < TRACE_NAMES;
}

/* Microseconds, the unit of the format. */
static json_t *time_json(uint64_t ns)
{
	return json_real((double)ns / 1000);
}

/* ---- rows */

/* `stream' is negative for the row of the process. */
static json_t *row(
	const struct trace_head *head, const char *what, int64_t stream, const char *name)
{
	return json_pack("{s:s s:s s:o s:o* s:{s:o}}", "ph", "M", "name", what, "pid",
		json_integer(head->pid), "tid", stream >= 0 ? json_integer(stream) : NULL, "args",
		"name", json_text(name));
}

static json_t *stream_row(const struct trace_head *head, uint32_t stream)
{
	char name[64];

	if (stream < DEVICES_MAX)
		snprintf(name, sizeof(name), "NULL stream of GPU %u", stream);
	else
		snprintf(name, sizeof(name), "stream %u", stream - DEVICES_MAX + 1);
	return row(head, "thread_name", stream, name);
}

/* Each chunk names its rows. A viewer ignores repetitions. */
static void add_rows(json_t **list, const struct trace_chunk *chunk)
{
	bool has_stream[STREAM_MAX] = {false};
	char name[TRACE_COMMAND_MAX + TRACE_GROUP_MAX + 32];

	snprintf(name, sizeof(name), "%s (user %u%s%s)",
		chunk->head.command[0] ? chunk->head.command : "client", chunk->head.uid,
		chunk->head.group[0] ? ", " : "", chunk->head.group);
	json_add(list, row(&chunk->head, "process_name", -1, name));
	for (uint32_t i = 0; i < chunk->head.n_records; i++) {
		const struct trace_record *record = &chunk->records[i];

		if (!record_ok(record) || record->kind >= TRACE_FAULT || has_stream[record->stream])
			continue;
		has_stream[record->stream] = true;
		json_add(list, stream_row(&chunk->head, record->stream));
	}
}

/* ---- events */

static const char *kind_name(unsigned kind)
{
	static const char *const names[TRACE_KINDS] = {
		[TRACE_LAUNCH] = "kernel",
		[TRACE_GRAPH] = "graph",
		[TRACE_COPY_IN] = "copy in",
		[TRACE_COPY_OUT] = "copy out",
		[TRACE_COPY_WITHIN] = "copy within",
		[TRACE_FILL] = "fill",
		[TRACE_WAIT] = "wait",
		[TRACE_FAULT] = "GPU fault",
		[TRACE_END] = "end of the client",
	};

	return names[kind];
}

/* A kernel's name: as its file of machine code has it, and as its source has it. */
struct function {
	uint32_t offset; /* in the chunk's names; 0: none */
	char symbol[TRACE_NAME_MAX];
	struct demangled demangled;
	const char *name; /* the symbol itself, if it is not mangled */
};

/* Records in a row often have one name. */
static void read_function(
	struct function *function, const struct trace_chunk *chunk, uint32_t offset)
{
	if (function->offset == offset)
		return;
	function->offset = offset;
	snprintf(function->symbol, sizeof(function->symbol), "%s", chunk->names + offset);
	function->name = demangle(&function->demangled, function->symbol);
}

static json_t *name_json(const struct function *function, const struct trace_record *record)
{
	char name[DEMANGLED_MAX + 16];

	if (record->name == 0)
		return json_string(kind_name(record->kind));
	snprintf(name, sizeof(name), "%s%s", function->name,
		record->flags & TRACE_MIXED ? " and others" : "");
	return json_text(name);
}

static json_t *symbol_json(const struct function *function, const struct trace_record *record)
{
	bool is_mangled = record->name != 0 && function->name != function->symbol;

	return is_mangled ? json_text(function->symbol) : NULL;
}

static json_t *flag_json(const struct trace_record *record, unsigned flag)
{
	return record->flags & flag ? json_true() : NULL;
}

static json_t *args_json(const struct function *function, const struct trace_record *record)
{
	bool is_launch = record->kind == TRACE_LAUNCH, is_work = record->kind <= TRACE_WORK_MAX;

	return json_pack("{s:o* s:o* s:o* s:o* s:o*}", "symbol", symbol_json(function, record),
		is_launch                     ? "launches"
		: record->kind == TRACE_GRAPH ? "nodes"
					      : "bytes",
		is_work ? json_amount(is_launch ? record->count : record->size) : NULL, "untimed",
		flag_json(record, TRACE_UNTIMED), "unfinished", flag_json(record, TRACE_UNFINISHED),
		"refused", flag_json(record, TRACE_REFUSED));
}

/* A graph of its own, in the client's rows. */
static json_t *level(const struct trace_head *head, const struct trace_record *record)
{
	bool is_share = record->kind == TRACE_SHARE;
	char name[32];

	snprintf(name, sizeof(name), "%s on GPU %u", is_share ? "SMs" : "slowdown", record->stream);
	return json_pack("{s:s s:s s:o s:o s:{s:o}}", "ph", "C", "name", name, "pid",
		json_integer(head->pid), "ts", time_json(record->start_ns), "args",
		is_share ? "SMs" : "times",
		is_share ? json_amount(record->size) : json_real((double)record->size / 1000));
}

static json_t *event(const struct trace_head *head, const struct function *function,
	const struct trace_record *record)
{
	bool is_slice = record->kind <= TRACE_WORK_MAX && !(record->flags & TRACE_UNTIMED);
	bool is_of_process = record->kind >= TRACE_FAULT;

	return json_pack("{s:s s:o s:s s:o s:o s:o s:o s:o}", "ph", is_slice ? "X" : "i", "name",
		name_json(function, record), "cat", kind_name(record->kind), "pid",
		json_integer(head->pid), "tid", json_integer(record->stream), "ts",
		time_json(record->start_ns), is_slice ? "dur" : "s",
		is_slice ? time_json(record->duration_ns) : json_string(is_of_process ? "p" : "t"),
		"args", args_json(function, record));
}

/* The rest of the client's events is missing. */
static json_t *lost(const struct trace_head *head)
{
	return json_pack("{s:s s:s s:s s:o s:i s:o s:s s:{s:o}}", "ph", "i", "name",
		"the trace is full", "cat", "full", "pid", json_integer(head->pid), "tid", 0, "ts",
		time_json(head->full_ns), "s", "p", "args", "missing_events",
		json_amount(head->n_lost));
}

json_t *trace_text(const struct trace_chunk *chunk)
{
	json_t *list = json_array();
	struct function function = {0};

	add_rows(&list, chunk);
	for (uint32_t i = 0; i < chunk->head.n_records; i++) {
		const struct trace_record *record = &chunk->records[i];

		if (!record_ok(record))
			continue;
		if (record->kind >= TRACE_SHARE) {
			json_add(&list, level(&chunk->head, record));
			continue;
		}
		read_function(&function, chunk, record->name);
		json_add(&list, event(&chunk->head, &function, record));
	}
	if (chunk->head.n_lost > 0 && chunk->head.full_ns <= TIME_MAX_NS)
		json_add(&list, lost(&chunk->head));
	return list;
}
