/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_ROOM_H
#define SESSION_ROOM_H

/*
 * What the rooms above this one do for each session. One list has an entry for each room, so
 * that session/ and stream/ include no headers of the rooms above them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;
struct stream;

/* A NULL function is not called. */
struct session_room {
	/*
	 * Size of the room's part of a session: zeroed bytes that live as long as the session. The
	 * session's account is charged with them, and with what the system keeps for the part
	 * (kept.h).
	 */
	size_t size;
	uint64_t kept;

	/* The loop, when the session is made: stores the pointer to the part, if there is one. */
	void (*begin)(struct session *session, void *part);

	/* The worker: no work of the session is on any GPU now. */
	void (*rest)(struct session *session);

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
	 * knows of that yet. Must not wait for the GPU.
	 */
	void (*fault)(void);

	/*
	 * The worker: frees what the session has in the driver; if the device is lost, only the
	 * server's own memory.
	 */
	void (*end)(struct session *session, bool device_lost);
};

/* In the order in which a session ends, with NULL at the end. Defined in server/rooms.c. */
extern const struct session_room *const session_rooms[];

/* Bytes of all parts, and of what is kept for them. */
size_t session_rooms_size(void);
uint64_t session_rooms_kept(void);

/* Each of these calls the function with the same name in each entry; `parts' are all parts. */
void session_rooms_begin(struct session *session, void *parts);
void session_rooms_rest(struct session *session);
void session_rooms_release(struct session *session);
void session_rooms_stream_end(struct stream *stream, bool device_lost);
void session_rooms_code_end(struct session *session);
void session_rooms_fault(void);
void session_rooms_end(struct session *session, bool device_lost);

#endif
