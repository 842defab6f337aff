/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_PART_H
#define SESSION_PART_H

/*
 * The parts of a session: what the files of higher rooms keep and do for each session. They are
 * entries of one list, so that session/ and stream/ include no headers of the rooms above them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack;
struct record_note;
struct record_notes;
struct session;
struct stream;

/* A NULL function is not called. */
struct session_part {
	/*
	 * Size of the part's memory: zeroed bytes that live as long as the session. The session's
	 * account is charged with them, and with what the system keeps for the part (kept.h).
	 */
	size_t size;
	uint64_t kept;

	/* The loop, when the session is made: stores the pointer to the part's memory. */
	void (*begin)(struct session *session, void *memory);

	/*
	 * The worker, whose session is at rest: why what the part has cannot be made again by
	 * another server (server/replay.h); NULL: it can.
	 */
	const char *(*obstacle)(struct session *session);

	/* The same: what the record does not tell of its objects (server/record/record_notes.h). */
	void (*note)(struct session *session, struct record_notes *notes);

	/*
	 * The worker, in a replay: what note() said, in perhaps another server. The bytes are those
	 * of another process. False: it cannot be so.
	 */
	bool (*recall)(struct session *session, const struct record_note *note);

	/* What end() frees is in the session's record, and may be made again behind it. */
	bool is_recorded;

	/* The worker: no work of the session is on any GPU now. */
	void (*rest)(struct session *session);

	/*
	 * The worker, whose ring is empty: whether the part needs no poll(), trim() or keep().
	 */
	bool (*is_settled)(const struct session *session);

	/* The worker, again and again until all parts are settled: looks what has ended. */
	void (*poll)(struct session *session);

	/*
	 * The worker between two messages, when no work of the session is on any GPU, until all
	 * parts are settled: copies what a fault of the GPU would take.
	 */
	void (*keep)(struct session *session);

	/*
	 * The worker: no work of the session is on any GPU. Gives back what it keeps unused; `all':
	 * also what takes long to make again, as memory is short or the session rests for long.
	 */
	void (*trim)(struct session *session, bool all);

	/*
	 * The worker, as the session ends: writes the semaphores that its work on GPUs waits for.
	 */
	void (*release)(struct session *session);

	/* The worker: the stream ends, with what was made for it. */
	void (*stream_end)(struct stream *stream, bool device_lost);

	/* The worker, before code of the session is unloaded. */
	void (*code_end)(struct session *session);

	/*
	 * Any thread, once: a GPU fault has ended the context, which is current, and no client
	 * knows of that yet. The session has seen it first. Must not wait for the GPU.
	 */
	void (*fault)(struct session *session);

	/*
	 * The worker: why what the part has besides cannot move to another server, as a clause;
	 * NULL: it can.
	 */
	const char *(*stays)(const struct session *session);

	/*
	 * The session moves to another server (server/departure.h). It is at rest, and
	 * session_stays() is NULL. The worker puts the part's state into the pack; in the other
	 * server, a thread of server/arrival.c takes it out before the worker starts. 0 or -errno.
	 */
	int (*pack)(struct session *session, struct pack *pack);

	/*
	 * The other server's loop, before it has a context, for the copy of a pack, whose
	 * descriptors stay the pack's: whether unpack() finds what it reads right. 0 or -errno.
	 */
	int (*check)(struct session *session, struct pack *pack);
	int (*unpack)(struct session *session, struct pack *pack);

	/*
	 * The same, after all sessions that come with it were unpacked: finds what others of them
	 * share with it. 0 or -errno.
	 */
	int (*join)(struct session *session);

	/*
	 * The loop, while both sessions are at rest: whether this one cannot move because the other
	 * one does not, or one that has ended (`other' may be NULL).
	 */
	bool (*needs)(const struct session *session, const struct session *other);

	/*
	 * The worker: frees what the session has in the driver; if the device is lost, only the
	 * server's own memory.
	 */
	void (*end)(struct session *session, bool device_lost);
};

/* In the order in which a session ends, with NULL at the end. Defined in server/rooms.c. */
extern const struct session_part *const session_parts[];

/* The entries of that list, each defined by the file of its name. */
extern const struct session_part aliases_part, arrays_part, background_part, classes_part,
	context_shares_part, elastic_streams_part, events_part, evictions_part, foreground_part,
	graphs_part, greens_part, host_part, ipc_part, launch_batches_part, launching_part,
	libraries_part, linkers_part, loop_turns_part, pending_waits_part, printf_capture_part,
	probation_part, recv_fd_part, session_devices_part, shared_events_part, staging_part,
	streams_part, textures_part, timeline_part, tracer_part, virtual_part, waiters_part;

/* Bytes of the memory of all parts, and of what the system keeps for them. */
size_t session_parts_size(void);
uint64_t session_parts_kept(void);

/* Calls the function of that name in each entry of the list. */
#define each_part(list, function, ...)                                                             \
	do {                                                                                       \
		for (const struct session_part *const *_part = (list); *_part; _part++)            \
			if ((*_part)->function)                                                    \
				(*_part)->function(__VA_ARGS__);                                   \
	} while (0)

/* The same where it takes more. `memory' has session_parts_size() bytes. */
void session_parts_begin(struct session *session, void *memory);
bool session_parts_are_settled(const struct session *session);

/* The reason of the first part that has one; NULL: none has. */
const char *session_parts_obstacle(struct session *session);
const char *session_parts_stay(const struct session *session);

/* From the last part to the first: what a part needs comes before it. 0 or -errno. */
int session_parts_pack(struct session *session, struct pack *pack);
int session_parts_check(struct session *session, struct pack *pack);
int session_parts_unpack(struct session *session, struct pack *pack);
int session_parts_join(struct session *session);
bool session_parts_need(const struct session *session, const struct session *other);

#endif
