/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_HARNESS_H
#define SESSION_HARNESS_H

/*
 * A session of the server in this process, over the counting driver, and the
 * client's end of its ring: for fuzzers and unit tests. One at a time.
 */

#include <stddef.h>
#include <stdint.h>

#include "server/session/session.h"

struct harness {
	struct session *session;
	struct ring_sender sender;
	int client; /* the client's end of the connection */
	uint32_t late_errors;
};

extern struct harness harness;

/* Creates a session; `with_worker' starts its thread, else harness_serve() does its work. */
void harness_open(bool with_worker);

/* Of a session without a worker: starts its thread. */
void harness_start_worker(void);

/* harness_open(false) if memory may be short. 0 or -errno. */
int harness_try_open(void);

/* Ends it like a client's death, and checks that the driver has everything back. */
void harness_close(void);

/* Serves until nothing is left. 0, or -EBADMSG as worker_fetch(). */
int harness_serve(void);

/* Writes bytes into the ring, from its beginning, and reports `tail' bytes. */
void harness_fill_ring(const uint8_t *bytes, size_t size, uint32_t tail);

/* Marks every host function as returned, also future ones: the harness runs none. */
void harness_say_done(void);

/* Sends an image as a client does before library_load. `data' ends in a NUL for PTX. */
void harness_send_image(const void *data, size_t size);

/* The same with a descriptor, for allocation_import and host_alias; the caller keeps it. */
void harness_send_memory(uint64_t address, uint64_t size, int fd);

/* The descriptor from a FRAME_MEMORY; the caller owns it. */
int harness_read_memory(uint64_t address, uint64_t size);

/* The generated send_X() call call_post() and call_ask(), which the harness defines. */

/* A late error since the last call; CUDA_SUCCESS if there is none. */
CUresult harness_late_error(void);

/* Waits up to two seconds for a stream's timeline. */
bool harness_wait(uint32_t stream, uint64_t value);

#endif
