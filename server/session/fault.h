/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULT_H
#define FAULT_H

/*
 * A GPU fault ends the context, and with it every session of this server. The first thread
 * that sees a fault notes it; the loop notifies the others.
 */

#include "base.h"
#include "cuda_api.h"

struct session;

/* Whether the result means that the context, and with it every session, is lost. */
bool result_is_fault(CUresult result);

/* Notes a result that may be a fault; returns it. Any thread. */
CUresult fault_note(struct session *session, CUresult result);

/*
 * The same for the result of a message: once a fault is noted, each failure is the fault's. So the
 * message of a survivor that failed meanwhile is put back, whatever its error.
 */
CUresult fault_note_failure(struct session *session, CUresult result);

/* Whether the result has to be the message's own, so that the message can be put back. */
bool fault_explains(CUresult result);

/* Whether the fault has destroyed words of memory, which may be of any client. */
bool result_is_of_memory(CUresult fault);

/*
 * Whether there was a fault, and the session may go on in another server (server/rescue.h): it had
 * no work on a GPU, or its client has asked to go on without, and it does not end. Any thread.
 */
bool fault_spares(const struct session *session);

/* The same, and it goes on without the work that it had (server/dropped.h). */
bool fault_drops(const struct session *session);

/*
 * Worker of such a session: the message of its ring that has this byte was not executed, because of
 * the fault. The worker is held, and another server executes the message.
 */
void fault_put_back(struct session *session, const void *byte);

/* CUDA_SUCCESS, or the fault that ended this server's context. Any thread. */
CUresult fault_get(void);

/* ID of the session whose work saw the fault first; 0: no session. */
uint32_t fault_session(void);

/* For tests: forgets the fault. */
void fault_forget(void);

#endif
