/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONSTANTS_H
#define CONSTANTS_H

/*
 * Variables that the driver has placed and whose addresses the client has: constants. They lie at
 * other addresses in another server, which translates the client's (server/util/ranges.h), and
 * writes the bytes that they had here. The session's worker.
 */

#include "server/record/record_notes.h"
#include "server/driver/driver.h"

struct library;
struct session;
struct session_device;

/* Why their bytes cannot be noted; NULL: they can. */
const char *constants_obstacle(const struct session *session);

/*
 * Keeps a copy of their bytes, as far as they may have changed: a fault of the GPU ends the memory
 * of the driver, but not a session that was at rest. The worker, whose session has no work.
 */
void constants_keep(struct session *session);

/* Whether that would do nothing. */
bool constants_are_kept(const struct session *session);

/* Notes the bytes of all of them. */
void constants_note(struct session *session, struct record_notes *notes);

/* Whether the note is one of constants_note(). */
bool constants_is_note(const struct record_note *note);

/* Keeps what constants_note() has said until constants_restore(). False: it cannot be so. */
bool constants_recall(
	struct session *session, struct library *library, const struct record_note *note);

/*
 * The constant that the client knows at `address' lies at `real' on that GPU: writes its bytes.
 * CUDA_ERROR_INVALID_VALUE: nothing is known of it.
 */
CUresult constants_restore(struct session *session, struct library *library,
	struct session_device *sdev, uint64_t address, uint64_t size, uint64_t real);

/* The library ends. */
void constants_free(struct library *library);

#endif
