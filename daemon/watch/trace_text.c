/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events of a trace as JSON. Any thread.
 *
 * Invariant: the chunk can have any bytes. What is impossible is left out.
 */

#include "trace_text.h"

#include <stdio.h>
#include <string.h>

#include "bounds.h"

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
	return true;
}

static bool record_ok(const struct trace_record *record)
{
	return record->kind > 0 && record->kind < TRACE_KINDS && record->stream < STREAM_MAX &&
	       record->start_ns <= TIME_MAX_NS && record->duration_ns <= TIME_MAX_NS &&
	       record->name < TRACE_NAMES;
}

/* Microseconds, the unit of the format. */
static void write_time(struct json *json, const char *name, uint64_t ns)
{
	json_decimal(json, name, ns / 1000, (unsigned)(ns % 1000));
}

static void write_amount(struct json *json, const char *name, uint64_t amount)
{
	json_number(json, name, (int64_t)MIN(amount, (uint64_t)INT64_MAX));
}

/* ---- rows */

static void write_row(struct json *json, const struct trace_head *head, const char *what,
	int64_t stream, const char *name)
{
	json_open(json, NULL, '{');
	json_string(json, "ph", "M");
	json_string(json, "name", what);
	json_number(json, "pid", head->pid);
	if (stream >= 0)
		json_number(json, "tid", stream);
	json_open(json, "args", '{');
	json_string(json, "name", name);
	json_close(json, '}');
	json_close(json, '}');
}

static void write_stream_row(struct json *json, const struct trace_head *head, uint32_t stream)
{
	char name[64];

	if (stream < DEVICES_MAX)
		snprintf(name, sizeof(name), "NULL stream of GPU %u", stream);
	else
		snprintf(name, sizeof(name), "stream %u", stream - DEVICES_MAX + 1);
	write_row(json, head, "thread_name", stream, name);
}

/* Each chunk names its rows. A viewer ignores repetitions. */
static void write_rows(struct json *json, const struct trace_chunk *chunk)
{
	bool has_stream[STREAM_MAX] = {false};
	char name[TRACE_COMMAND_MAX + 32];

	snprintf(name, sizeof(name), "%s (user %u)",
		chunk->head.command[0] ? chunk->head.command : "client", chunk->head.uid);
	write_row(json, &chunk->head, "process_name", -1, name);
	for (uint32_t i = 0; i < chunk->head.n_records; i++) {
		const struct trace_record *record = &chunk->records[i];

		if (!record_ok(record) || record->kind >= TRACE_FAULT || has_stream[record->stream])
			continue;
		has_stream[record->stream] = true;
		write_stream_row(json, &chunk->head, record->stream);
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

static void write_name(
	struct json *json, const struct trace_chunk *chunk, const struct trace_record *record)
{
	char name[TRACE_NAME_MAX + 16];

	if (record->name == 0) {
		json_string(json, "name", kind_name(record->kind));
		return;
	}
	snprintf(name, sizeof(name), "%.*s%s", (int)TRACE_NAME_MAX - 1, chunk->names + record->name,
		record->flags & TRACE_MIXED ? " and others" : "");
	json_string(json, "name", name);
}

static void write_args(struct json *json, const struct trace_record *record)
{
	json_open(json, "args", '{');
	if (record->kind == TRACE_LAUNCH)
		json_number(json, "launches", record->count);
	else if (record->kind == TRACE_GRAPH)
		write_amount(json, "nodes", record->size);
	else if (record->kind <= TRACE_WORK_MAX)
		write_amount(json, "bytes", record->size);
	if (record->flags & TRACE_UNTIMED)
		json_bool(json, "untimed", true);
	if (record->flags & TRACE_UNFINISHED)
		json_bool(json, "unfinished", true);
	if (record->flags & TRACE_REFUSED)
		json_bool(json, "refused", true);
	json_close(json, '}');
}

static void write_event(
	struct json *json, const struct trace_chunk *chunk, const struct trace_record *record)
{
	bool is_slice = record->kind <= TRACE_WORK_MAX && !(record->flags & TRACE_UNTIMED);
	bool is_of_process = record->kind >= TRACE_FAULT;

	json_open(json, NULL, '{');
	json_string(json, "ph", is_slice ? "X" : "i");
	write_name(json, chunk, record);
	json_string(json, "cat", kind_name(record->kind));
	json_number(json, "pid", chunk->head.pid);
	json_number(json, "tid", record->stream);
	write_time(json, "ts", record->start_ns);
	if (is_slice)
		write_time(json, "dur", record->duration_ns);
	else
		json_string(json, "s", is_of_process ? "p" : "t");
	write_args(json, record);
	json_close(json, '}');
}

/* The rest of the client's events is missing. */
static void write_lost(struct json *json, const struct trace_head *head)
{
	if (head->n_lost == 0 || head->full_ns > TIME_MAX_NS)
		return;
	json_open(json, NULL, '{');
	json_string(json, "ph", "i");
	json_string(json, "name", "the trace is full");
	json_string(json, "cat", "full");
	json_number(json, "pid", head->pid);
	json_number(json, "tid", 0);
	write_time(json, "ts", head->full_ns);
	json_string(json, "s", "p");
	json_open(json, "args", '{');
	write_amount(json, "missing_events", head->n_lost);
	json_close(json, '}');
	json_close(json, '}');
}

void trace_text_write(struct json *json, const struct trace_chunk *chunk)
{
	json_open(json, NULL, '[');
	write_rows(json, chunk);
	for (uint32_t i = 0; i < chunk->head.n_records; i++)
		if (record_ok(&chunk->records[i]))
			write_event(json, chunk, &chunk->records[i]);
	write_lost(json, &chunk->head);
	json_close(json, ']');
}
