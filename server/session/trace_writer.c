/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The server's traces. The loop and the workers.
 *
 * Invariant: the memory of a trace stays open while a session has joined it. A chunk belongs to one
 * session, so workers write without a lock. Nothing is read back from the memory.
 */

#include "trace_writer.h"

#include <string.h>
#include <unistd.h>

#include "clock.h"

/* Each session that has joined holds 0.2 MiB, and needs a chunk. */
#define JOINED_MAX TRACE_CHUNKS

atomic_uint trace_generation;

/* The daemon keeps no more. */
#define TRACES_OF_SERVER 32u

struct trace {
	int fd;      /* -EBADF: unused */
	uint64_t id; /* the daemon's; 0: it has no reader */
	_Atomic uint32_t uid;
	atomic_bool is_running;
	atomic_uint n_joined; /* also counts sessions that look whether they may join */
	atomic_uint n_chunks; /* taken by sessions; may exceed TRACE_CHUNKS */
	_Atomic uint64_t n_lost;
};

static struct trace traces[TRACES_OF_SERVER] = {[0 ... TRACES_OF_SERVER - 1] = {.fd = -EBADF}};

/* NULL: the user has a trace, or all entries are in use. */
static struct trace *find_unused(uint32_t uid)
{
	struct trace *unused = NULL;

	for (unsigned i = 0; i < TRACES_OF_SERVER; i++) {
		if (traces[i].fd < 0)
			unused = &traces[i];
		else if (atomic_load(&traces[i].uid) == uid)
			return NULL;
	}
	return unused;
}

int trace_begin(uint64_t id, int fd, uint32_t uid)
{
	struct trace *trace = find_unused(uid);

	if (!trace) {
		close(fd);
		return -EBUSY;
	}
	trace->fd = fd;
	trace->id = id;
	atomic_store(&trace->uid, uid);
	atomic_store(&trace->n_chunks, 0);
	atomic_store(&trace->n_lost, 0);
	atomic_store(&trace->is_running, true);
	atomic_fetch_add(&trace_generation, 1);
	return 0;
}

static bool end_one(struct trace *trace)
{
	if (!atomic_exchange(&trace->is_running, false))
		return false;
	atomic_fetch_add(&trace_generation, 1);
	return true;
}

bool trace_end(uint64_t id)
{
	for (unsigned i = 0; i < TRACES_OF_SERVER; i++)
		if (traces[i].fd >= 0 && traces[i].id == id)
			return end_one(&traces[i]);
	return false;
}

bool trace_end_all(void)
{
	bool is_any = false;

	for (unsigned i = 0; i < TRACES_OF_SERVER; i++) {
		is_any |= traces[i].fd >= 0;
		traces[i].id = 0;
		end_one(&traces[i]);
	}
	return is_any;
}

static bool is_ended(const struct trace *trace)
{
	return trace->fd >= 0 && !atomic_load(&trace->is_running);
}

bool trace_is_ending(void)
{
	for (unsigned i = 0; i < TRACES_OF_SERVER; i++)
		if (is_ended(&traces[i]))
			return true;
	return false;
}

bool trace_close_memory(uint64_t *ret_id, uint64_t *ret_n_lost)
{
	for (unsigned i = 0; i < TRACES_OF_SERVER; i++) {
		struct trace *trace = &traces[i];

		if (!is_ended(trace) || atomic_load(&trace->n_joined) > 0)
			continue;
		*ret_id = trace->id;
		*ret_n_lost = atomic_load(&trace->n_lost);
		close(TAKE_FD(trace->fd));
		return true;
	}
	return false;
}

/* The session counts before it looks, and the loop looks after it has ended the trace. */
static bool trace_join_one(struct session *session, struct trace *trace, uint32_t uid)
{
	unsigned n_joined = atomic_fetch_add(&trace->n_joined, 1);

	session->trace = trace;
	if (atomic_load(&trace->is_running) && atomic_load(&trace->uid) == uid) {
		if (n_joined < JOINED_MAX)
			return true;
		atomic_fetch_add(&trace->n_lost, 1);
	}
	trace_leave(session);
	return false;
}

static bool trace_join_of(struct session *session, uint32_t uid)
{
	for (unsigned i = 0; i < TRACES_OF_SERVER; i++)
		if (atomic_load(&traces[i].is_running) && trace_join_one(session, &traces[i], uid))
			return true;
	return false;
}

bool trace_join(struct session *session)
{
	session->trace_generation = atomic_load(&trace_generation);
	return trace_join_of(session, TRACE_ALL_USERS) || trace_join_of(session, session->uid);
}

/* Whether a trace of all users runs. */
static bool is_all_traced(void)
{
	for (unsigned i = 0; i < TRACES_OF_SERVER; i++)
		if (atomic_load(&traces[i].is_running) &&
			atomic_load(&traces[i].uid) == TRACE_ALL_USERS)
			return true;
	return false;
}

bool trace_stay(struct session *session)
{
	const struct trace *trace = session->trace;

	session->trace_generation = atomic_load(&trace_generation);
	return trace && atomic_load(&trace->is_running) &&
	       (atomic_load(&trace->uid) == TRACE_ALL_USERS || !is_all_traced());
}

void trace_leave(struct session *session)
{
	struct trace *trace = TAKE_PTR(session->trace);

	atomic_fetch_sub(&trace->n_joined, 1);
	if (!atomic_load(&trace->is_running) && session->on_news)
		session->on_news(session->on_news_arg);
}

/* ---- a session's part */

void trace_writer_init(struct trace_writer *writer, const struct session *session)
{
	struct trace_head *head = &writer->chunk.head;

	writer->trace = session->trace;
	head->magic = TRACE_MAGIC;
	head->session = session->id;
	head->pid = session->pid;
	head->uid = session->uid;
	if (session->command)
		memcpy(head->command, session->command,
			strnlen(session->command, sizeof(head->command) - 1));
	if (session->group)
		memcpy(head->group, session->group->name, sizeof(head->group));
}

_Static_assert(TRACE_GROUP_MAX == GROUP_NAME_MAX, "the names of all groups fit");

static void begin_chunk(struct trace_writer *writer)
{
	writer->chunk.head.n_records = 0;
	writer->chunk.head.names_size = 1;
	writer->chunk.names[0] = '\0';
	memset(writer->known, 0, sizeof(writer->known));
}

/* The present chunk is full, or there is none. */
static void take_chunk(struct trace_writer *writer)
{
	uint32_t index = TRACE_CHUNKS;

	if (writer->n_chunks > 0)
		trace_writer_flush(writer);
	if (writer->n_chunks < TRACE_CLIENT_CHUNKS)
		index = atomic_fetch_add(&writer->trace->n_chunks, 1);
	if (index >= TRACE_CHUNKS) {
		writer->is_full = true;
		return;
	}
	writer->index = index;
	writer->n_chunks++;
	begin_chunk(writer);
}

static uint8_t hash_name(const char *name, size_t length)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)name[i]) * 16777619u;
	return (uint8_t)(hash ^ hash >> 16);
}

/* The offset of a name in the chunk, which gets it if needed. -ENOSPC: it has no space. */
static int put_name(struct trace_writer *writer, const char *name, uint32_t *ret_offset)
{
	struct trace_chunk *chunk = &writer->chunk;
	size_t length = strnlen(name, TRACE_NAME_MAX - 1);
	uint16_t *known = &writer->known[hash_name(name, length)];

	if (*known && strncmp(chunk->names + *known, name, length) == 0 &&
		chunk->names[*known + length] == '\0') {
		*ret_offset = *known;
		return 0;
	}
	if (chunk->head.names_size + length + 1 > TRACE_NAMES)
		return -ENOSPC;
	memcpy(chunk->names + chunk->head.names_size, name, length);
	chunk->names[chunk->head.names_size + length] = '\0';
	*ret_offset = *known = (uint16_t)chunk->head.names_size;
	chunk->head.names_size += (uint32_t)length + 1;
	return 0;
}

static void lose(struct trace_writer *writer, const struct trace_record *record)
{
	struct trace_head *head = &writer->chunk.head;

	if (head->n_lost++ == 0)
		head->full_ns = record->start_ns;
	writer->is_dirty = true;
	atomic_fetch_add_explicit(&writer->trace->n_lost, 1, memory_order_relaxed);
}

void trace_writer_add(
	struct trace_writer *writer, const struct trace_record *record, const char *name)
{
	struct trace_chunk *chunk = &writer->chunk;
	uint32_t offset = 0;

	if (!writer->is_full && (writer->n_chunks == 0 || chunk->head.n_records == TRACE_RECORDS))
		take_chunk(writer);
	if (!writer->is_full && name && put_name(writer, name, &offset) < 0) {
		take_chunk(writer);
		if (!writer->is_full)
			put_name(writer, name, &offset);
	}
	if (writer->is_full) {
		lose(writer, record);
		return;
	}
	chunk->records[chunk->head.n_records] = *record;
	chunk->records[chunk->head.n_records++].name = offset;
	writer->is_dirty = true;
}

void trace_writer_flush(struct trace_writer *writer)
{
	const off_t at = (off_t)((uint64_t)writer->index * TRACE_CHUNK_SIZE);

	if (!writer->is_dirty)
		return;
	writer->is_dirty = false;
	writer->written_ns = now_ns();
	/* Without memory for it, the trace lacks this part; the daemon counts what it finds. */
	if (writer->n_chunks > 0 &&
		pwrite(writer->trace->fd, &writer->chunk, sizeof(writer->chunk), at) < 0)
		writer->is_full = true;
}
